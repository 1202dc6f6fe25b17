"""Settings that go with the size of one's own data, where nothing was said.

What one size of data needs would ruin another. With few users noise is only as small as a
large share of them can make it, and an update is clipped to a norm that nobody knows
beforehand. The values were found on users of few texts each, 400 to 6,000 of them
(docs/first_own_data.md).
"""

import dataclasses
import os
from collections.abc import Collection, Mapping
from typing import Any

from tff_textpriv.iterative_processes.algorithm import LANGUAGE_MODEL, OWN_MECHANISM
from tff_textpriv.privacy import outlook
from tff_textpriv.privacy.mechanism import Deployment
from tff_textpriv.training import experiment as experiment_lib

# Users per round: a share of all, but neither so few that noise drowns them nor so many
# that a round takes minutes.
_COHORT_SHARE = 4
_FEWEST, _MOST = 100, 2_000
_MOST_WRITERS = 400  # Those of language models take longer.
# Public text, in bytes, on which a first model is trained in minutes.
_MOST_PUBLIC_TEXT = 32_000_000

_CENTRAL = {
  'total_rounds': 40,
  'rounds_per_eval': 10,
  # Random cohorts cost less privacy than all users in each round.
  'cohort_sampling': 'poisson',
  'clip': 1.0,
  'adaptive_clipping': True,
  # Steps in the direction of the noisy mean; Adam would take noise for signal.
  'server_optimizer': 'sgd',
  'server_learning_rate': 1.0,
  'client_learning_rate': 1.0,
}
_CENTRAL_CLASSIFIER = {**_CENTRAL, 'server_momentum': 0.9}
# The less users stand out of the noise of 40 rounds, the sooner noise has the upper hand:
# how far they must stand out, the rounds, and the step of the server.
_BY_STRENGTH = ((15.0, 40, 1.0), (8.0, 40, 0.5), (2.0, 20, 0.5), (0.0, 10, 0.5))
_CENTRAL_LANGUAGE_MODEL = {**_CENTRAL, 'max_words_per_user': 200}
_WARM_START = {'warm_start_epochs': 1}
# A bit for each coordinate: Adam's steps have one size, so that bits of them would tell
# which class is frequent and no more.
_LOCAL_BITS = {
  'total_rounds': 40,
  'rounds_per_eval': 10,
  # Each in its turn: whoever is drawn by chance may be drawn each time, and pays for it.
  'cohort_sampling': 'separated',
  'client_optimizer': 'sgd',
  'client_learning_rate': 1.0,
  'quantization_range': 0.25,
}


def fitted(
  chosen: experiment_lib.Experiment,
  given: Collection[str],
  num_users: int,
  num_coordinates: int | None,
) -> experiment_lib.Experiment:
  """Puts values that go with the data in the place of defaults.

  Args:
    chosen: The experiment.
    given: The names of the flags that were given; they stay as they are.
    num_users: The number of training users.
    num_coordinates: The size of the model, if it is known before it is made.

  Returns:
    The experiment; its `fitted` says what was chosen.
  """
  first = _with(chosen, given, _values(chosen, num_users))
  knows_size = num_coordinates is not None and 'adaptive_clipping' in _names(chosen)
  if not first.fitted or not knows_size:
    return first
  run, privacy = first.run, first.privacy_settings
  cohort = run.cohort(num_users)
  deployment = Deployment(
    'poisson', num_users, cohort, run.total_rounds, num_coordinates=num_coordinates
  )
  found = outlook.estimate(privacy, deployment)
  if found is None:
    # So small a cohort cannot count clipped updates, and keep the promise.
    fixed = {**first.fitted, 'adaptive_clipping': False}
    first = _with(chosen, given, fixed)
    found = outlook.estimate(first.privacy_settings, deployment)
  if found is None:
    return first
  strength = found.strength
  rounds, step = next(
    (number, step) for least, number, step in _BY_STRENGTH if strength >= least
  )
  by_strength = {'total_rounds': rounds, 'server_learning_rate': step}
  return _with(chosen, given, {**first.fitted, **by_strength})


def _with(
  chosen: experiment_lib.Experiment, given: Collection[str], wanted: Mapping[str, Any]
) -> experiment_lib.Experiment:
  """Returns an experiment with those of some values that were not given."""
  groups = {
    name: getattr(chosen, name)
    for name in ('task_settings', 'algorithm_settings', 'privacy_settings', 'run')
  }
  free = _names(chosen) - set(given)
  values = {name: value for name, value in wanted.items() if name in free}
  replaced = {
    name: dataclasses.replace(
      group,
      **{f.name: values[f.name] for f in dataclasses.fields(group) if f.name in values},
    )
    for name, group in groups.items()
  }
  return dataclasses.replace(chosen, **replaced, fitted=values)


def _names(chosen: experiment_lib.Experiment) -> set[str]:
  """Returns the names of all settings that decide the result."""
  groups = (
    chosen.task_settings,
    chosen.algorithm_settings,
    chosen.privacy_settings,
    chosen.run,
  )
  return {field.name for group in groups for field in dataclasses.fields(group)}


def _values(chosen: experiment_lib.Experiment, num_users: int) -> Mapping[str, Any]:
  """Returns the values for so many users; none for what they were not found for."""
  if chosen.algorithm.mechanism != OWN_MECHANISM:
    return {}
  known = _names(chosen)
  writes = chosen.task.kind == LANGUAGE_MODEL
  if 'adaptive_clipping' in known:
    values = _CENTRAL_LANGUAGE_MODEL if writes else _CENTRAL_CLASSIFIER
    if writes and _has_little_public_text(chosen.task_settings.public_data):
      values = {**values, **_WARM_START}
  elif 'quantization_range' in known and not writes:
    values = _LOCAL_BITS
  else:
    return {}
  most = _MOST_WRITERS if writes else _MOST
  # Where users find a tokenizer first, others train the model.
  there = num_users // (2 if chosen.algorithm_settings.learns_tokenizer else 1)
  cohort = max(1, min(there, most, max(_FEWEST, there // _COHORT_SHARE)))
  return {'clients_per_round': cohort, **values}


def _has_little_public_text(path: str | None) -> bool:
  """Tells whether there is public text, and not too much to begin with."""
  if path is None or not os.path.isfile(path):
    return False
  return os.path.getsize(path) <= _MOST_PUBLIC_TEXT
