"""What every run says at its start and leaves behind at its end."""

import json
import pathlib
import signal
import sys
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tff_textpriv import files
from tff_textpriv.iterative_processes import contract
from tff_textpriv.models import usage as usage_lib
from tff_textpriv.privacy import card
from tff_textpriv.privacy.mechanism import Mechanism
from tff_textpriv.training import experiment, program, selection


def interrupted(outcome: program.Outcome) -> int:
  """Says how to go on with a run that was interrupted; returns the exit code."""
  print(
    f'stopped after round {outcome.rounds_done}; repeat the command to go on',
    file=sys.stderr,
  )
  return 128 + (outcome.signal_number or signal.SIGINT)


def write_card(
  chosen: experiment.Experiment,
  outcome: program.Outcome,
  mechanism: Mechanism,
  process: Any,
  folder: pathlib.Path,
) -> dict[str, Any]:
  """Writes the privacy card, with everything that clients send; returns it."""
  privacy = card.privacy_card(
    outcome.ledger,
    mechanism,
    task=chosen.task.name,
    algo=chosen.algorithm.name,
    facts={'rounds_done': outcome.rounds_done},
    user_note=chosen.task_settings.user_note,
    sent=contract.sends(process),
    chosen_on=(
      'validation users (--model_selection=best_validation)'
      if chosen.task_settings.model_selection == selection.BEST
      else None
    ),
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


def bytes_per_client(process: Any) -> dict[str, int]:
  """Returns the bytes that a client receives and sends in a round, if there are any.

  Tensors only, without framing or compression; metrics and weights count too.
  """
  down, up = contract.receives(process), contract.sends(process)
  if not up:
    return {}
  return {
    'bytes_down_per_client': sum(item.num_bytes for item in down),
    'bytes_up_per_client': sum(item.num_bytes for item in up),
  }


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
  left = ('metrics.csv', 'results.json', 'privacy_card.md', 'model.keras')
  names = ', '.join(name for name in left if (folder / name).exists())
  print(f'written: {folder}/ ({names})')


def mechanism_notes(
  mechanism: Mechanism, group: str, user_note: str | None
) -> list[str]:
  """Describes a mechanism in lines, for the start of a phase."""
  whose = f'{group}: ' if group else ''
  notes = list(mechanism.warnings)
  if user_note is not None and mechanism.no_guarantee_reason is None:
    notes.append(user_note)
  return [
    f'privacy   {whose}{mechanism.summary}',
    *(f'note      {note}' for note in notes),
  ]
