"""What every run says at its start and leaves behind at its end."""

import json
import pathlib
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tff_textpriv import files, sanity
from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes import contract
from tff_textpriv.models import usage as usage_lib
from tff_textpriv.privacy import card, outlook
from tff_textpriv.privacy.mechanism import Deployment, Mechanism, MechanismSettings
from tff_textpriv.training import experiment, program, selection


class Beginning:
  """What a run says when it begins; kept in about.txt, for the report."""

  def __init__(self, folder: pathlib.Path):
    """Begins with nothing said."""
    self._file = folder / 'about.txt'
    self._lines: list[str] = []

  def say(self, lines: Sequence[str]) -> None:
    """Prints lines, and keeps them."""
    for line in lines:
      print(f'  {line}')
    self.note(lines)

  def note(self, lines: Sequence[str]) -> None:
    """Keeps lines that were printed before."""
    self._lines += lines
    files.write_atomically(self._file, '\n'.join(self._lines) + '\n')


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
) -> dict[str, Any]:
  """Writes model.keras with its model.json and, last of all, results.json.

  A run that has results.json is done. What is in it is returned.

  Args:
    outcome: How training ended.
    privacy: The privacy card.
    metrics: The figures of the test, those of guesses without a model among them.
    model: The model with the outcome's selected weights, if the server has one.
    usage: What the model reads and answers.
    folder: The run's folder.
    **more: Other figures for results.json.
  """
  results: dict[str, Any] = {
    'rounds': outcome.rounds_done,
    'selected_round': outcome.selected_round,
    'ended': outcome.ended,
    'epsilon': privacy['epsilon'],
    **more,
    **{f'test_{name}': value for name, value in metrics.items()},
  }
  said = sanity.lines(results)
  if said:
    results['sanity'] = said
  if model is not None:
    with files.replacing(folder / 'model.keras') as temporary:
      model.save(temporary)
    files.write_atomically(folder / usage_lib.FILE, usage_lib.to_json(usage))
  files.write_atomically(folder / 'results.json', json.dumps(results, indent=2) + '\n')
  return results


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
  results: Mapping[str, Any],
  advice: str,
  folder: pathlib.Path,
) -> None:
  """Prints how a run ended, what the test says, whether that is any good, and the promise.

  Args:
    outcome: How training ended.
    privacy: The privacy card.
    summary: What the test says.
    results: All that is in results.json.
    advice: What to do about a model that is of no use.
    folder: The run's folder.
  """
  if outcome.ended == 'budget':
    print(
      f'stopped after round {outcome.rounds_done}: one more would exceed the budget'
    )
  print(summary)
  for sentence in results.get('sanity', ()):
    print(f'sanity: {sentence}')
  if sanity.is_of_use(sanity.compare(results)) is False:
    print(f'advice: {advice}')
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


def fitted_notes(chosen: experiment.Experiment, num_users: int) -> list[str]:
  """Says which values were chosen because they go with the data, as one would type them."""
  if not chosen.fitted:
    return []
  typed = ' '.join(
    f'--{name}={settings_lib.format_value(value)}'
    for name, value in chosen.fitted.items()
  )
  return [f'chosen    for {num_users:,} users, where nothing was said: {typed}']


def outlook_notes(
  mechanism: Mechanism, settings: MechanismSettings, deployment: Deployment
) -> list[str]:
  """Says before training whether noise will drown what users send, and what would help."""
  foreseen = outlook.foresee(mechanism, deployment)
  if foreseen is None:
    return []
  lines = [f'noise     {foreseen}']
  if not foreseen.is_enough:
    enough = ', or '.join(outlook.remedies(settings, deployment))
    needed = f': you need {enough}' if enough else ''
    lines.append(
      f'note      what users send is likely to drown in the noise{needed}; fewer '
      'parameters would help, too'
    )
  return lines
