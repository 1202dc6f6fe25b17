"""Settings that go with the size of one's own data, where nothing was said.

What one size of data needs would ruin another. With few users noise is only as small as a
large share of them can make it, and an update is clipped to a norm that nobody knows
beforehand. The values were found on users of few texts each, 400 to 6,000 of them
(docs/first_own_data.md).
"""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from tff_textpriv.iterative_processes.algorithm import LANGUAGE_MODEL
from tff_textpriv.training import experiment as experiment_lib

# Users per round: a share of all, but neither so few that noise drowns them nor so many
# that a round takes minutes.
_COHORT_SHARE = 4
_FEWEST, _MOST = 100, 2_000
_MOST_WRITERS = 400  # Those of language models take longer.

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
_CENTRAL_LANGUAGE_MODEL = {
  **_CENTRAL,
  'max_words_per_user': 200,
  'warm_start_epochs': 1,
}
# A bit for each coordinate: Adam's steps have one size, so that bits of them would tell
# which class is frequent and no more.
_LOCAL_BITS = {
  'total_rounds': 40,
  'rounds_per_eval': 10,
  'client_optimizer': 'sgd',
  'client_learning_rate': 1.0,
  'quantization_range': 0.25,
}


def fitted(
  chosen: experiment_lib.Experiment, given: Collection[str], num_users: int
) -> experiment_lib.Experiment:
  """Puts values that go with the data in the place of defaults.

  Args:
    chosen: The experiment.
    given: The names of the flags that were given; they stay as they are.
    num_users: The number of training users.

  Returns:
    The experiment; its `fitted` says what was chosen.
  """
  groups = {
    name: getattr(chosen, name)
    for name in ('task_settings', 'algorithm_settings', 'privacy_settings', 'run')
  }
  known = {f.name for group in groups.values() for f in dataclasses.fields(group)}
  values = {
    name: value
    for name, value in _values(chosen, known, num_users).items()
    if name in known - set(given)
  }
  replaced = {
    name: dataclasses.replace(
      group,
      **{f.name: values[f.name] for f in dataclasses.fields(group) if f.name in values},
    )
    for name, group in groups.items()
  }
  return dataclasses.replace(chosen, **replaced, fitted=values)


def _values(
  chosen: experiment_lib.Experiment, known: Collection[str], num_users: int
) -> Mapping[str, Any]:
  """Returns the values for so many users; none for algorithms whose defaults do."""
  writes = chosen.task.kind == LANGUAGE_MODEL
  if 'adaptive_clipping' in known:
    values = _CENTRAL_LANGUAGE_MODEL if writes else _CENTRAL_CLASSIFIER
  elif 'quantization_range' in known and not writes:
    values = _LOCAL_BITS
  else:
    return {}
  most = _MOST_WRITERS if writes else _MOST
  # Where users find a tokenizer first, others train the model.
  there = num_users // (2 if chosen.algorithm_settings.learns_tokenizer else 1)
  cohort = max(1, min(there, most, max(_FEWEST, there // _COHORT_SHARE)))
  return {'clients_per_round': cohort, **values}
