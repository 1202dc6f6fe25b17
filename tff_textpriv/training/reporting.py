"""What every run says at its start and leaves behind at its end."""

import json
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv import files
from tff_textpriv.iterative_processes import communication
from tff_textpriv.models import usage as usage_lib
from tff_textpriv.privacy import card, local, local_gaussian, plans
from tff_textpriv.privacy import ledger as ledger_lib
from tff_textpriv.training import experiment, program

Plan = card.Plan

# What a ledger without a guarantee is opened with; no figure comes of it.
_NOMINAL_DELTA = 1e-6


def opening_ledger(
  chosen: experiment.Experiment, plan: Plan | None
) -> ledger_lib.Ledger:
  """Opens the ledger of a run that has spent nothing yet."""
  if plan is not None:
    return ledger_lib.Ledger(plan.delta, plan.accountant)
  ledger = ledger_lib.Ledger(_NOMINAL_DELTA)
  why = (
    'all data are in one place'
    if chosen.algorithm.pooled
    else 'updates are averaged without clipping and without noise'
  )
  ledger.note_no_guarantee(chosen.algorithm.name, why)
  return ledger


def interrupted(outcome: program.Outcome) -> int:
  """Says how to go on with a run that was interrupted; returns the exit code."""
  print(
    f'stopped after round {outcome.rounds_done}; repeat the command to go on',
    file=sys.stderr,
  )
  return 128 + (outcome.signal_number or 0)


def write_card(
  chosen: experiment.Experiment,
  outcome: program.Outcome,
  plan: Plan | None,
  folder: pathlib.Path,
  user_note: str | None = None,
) -> dict[str, Any]:
  """Writes the privacy card, with a note on who its users are; returns it."""
  privacy = card.privacy_card(
    outcome.ledger,
    plan,
    task=chosen.task.name,
    algo=chosen.algorithm.name,
    facts={'rounds_done': outcome.rounds_done},
    user_note=user_note,
  )
  card.write(privacy, folder)
  return privacy


def write_results(
  outcome: program.Outcome,
  privacy: Mapping[str, Any],
  metrics: Mapping[str, float],
  model: tf.keras.Model | None,
  usage: usage_lib.Usage,
  folder: pathlib.Path,
  **more: Any,
) -> None:
  """Writes model.keras with its model.json and, last of all, results.json.

  A run that has results.json is done.

  Args:
    outcome: How training ended.
    privacy: The privacy card.
    metrics: The figures of the test.
    model: The model with the outcome's selected weights, if the server has one.
    usage: What the model reads and answers.
    folder: The run's folder.
    **more: Other figures for results.json.
  """
  results = {
    'rounds': outcome.rounds_done,
    'selected_round': outcome.selected_round,
    'ended': outcome.ended,
    'epsilon': privacy['epsilon'],
    **more,
    **{f'test_{name}': value for name, value in metrics.items()},
  }
  if model is not None:
    with files.replacing(folder / 'model.keras') as temporary:
      model.save(temporary)
    files.write_atomically(folder / usage_lib.FILE, usage_lib.to_json(usage))
  files.write_atomically(folder / 'results.json', json.dumps(results, indent=2) + '\n')


def bytes_per_client(process: Any, plan: Plan | None) -> dict[str, int]:
  """Returns the bytes that a client receives and sends in a round."""
  if not isinstance(process, tff.learning.templates.LearningProcess):
    return {}
  down, up = communication.per_client(process)
  if isinstance(plan, local.LdpPlan):
    # What leaves the client are bits; metrics.csv has their number.
    return {'bytes_down_per_client': down}
  return {'bytes_down_per_client': down, 'bytes_up_per_client': up}


def say_results(
  outcome: program.Outcome,
  privacy: Mapping[str, Any],
  summary: str,
  folder: pathlib.Path,
) -> None:
  """Prints how a run ended, what the test says, and what is promised."""
  if outcome.ended == 'budget':
    print(
      f'stopped after round {outcome.rounds_done}: one more would exceed the budget'
    )
  print(summary)
  print(f'privacy: {privacy["headline"]}')
  print(f'written: {folder}/ (metrics.csv, results.json, privacy_card.md, model.keras)')


def plan_notes(plan: Plan | None, group: str = '') -> list[str]:
  """Describes a privacy plan in lines, for the start of a run."""
  if plan is None:
    return ['privacy   no formal guarantee']
  whose = f'{group}: ' if group else ''
  if isinstance(plan, plans.CentralDpPlan):
    promise = (
      f'clip {plan.clip:g}, noise multiplier {plan.noise_multiplier:.4g}, '
      f'{plan.sampling} cohorts of {plan.cohort:,} in {plan.population:,} users'
    )
  elif isinstance(plan, local_gaussian.LocalGaussianPlan):
    clip = 'not clipped' if plan.clip_norm is None else f'clip {plan.clip_norm:g}'
    promise = f'local, {clip}, noise of standard deviation {plan.stddev:g}'
  else:
    promise = 'local, bit by bit'
  return [
    f'privacy   {whose}{promise}',
    *(f'note      {warning}' for warning in plan.warnings),
  ]
