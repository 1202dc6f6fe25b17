"""Our round: NumPy batches, our process, our workers.

python -m benchmarks.contenders.ours NUM_WORKERS ISOLATE_WORKERS LOG_FOLDER
"""

import pathlib
import sys

import numpy as np
import tensorflow_federated as tff

from benchmarks import workloads
from benchmarks.contenders import server
from tff_textpriv.iterative_processes import learning_model, registry, stacked_batches
from tff_textpriv.models import language_models
from tff_textpriv.privacy import central, mechanism, no_mechanism
from tff_textpriv.runtime import execution, heaps
from tff_textpriv.training import ahead

# A private round that nobody planned has no noise and is not made: more than are timed.
MOST_ROUNDS = 2000


class Ours:
  """Trains as `training/program.py` does."""

  def prepare(self, workload: workloads.Workload) -> None:
    """Builds the process; see `server.Contender`."""
    self._workload = workload
    self._process = build_process(
      language_models.build(workload.preset, workload.vocab_size, tied=False),
      workload.weights,
      gaussian(len(workload.posts)) if workload.private else no_privacy(),
    )
    self._next_round = stacked_batches.NextRound(self._process)
    self._state = self._process.initialize()
    self._cohorts = ahead.Ahead(self._cohort)
    self._round_number = 0

  def run_round(self) -> None:
    """Trains, and makes the next round's batches meanwhile."""
    self._round_number += 1
    cohort = self._cohorts.take(self._round_number)
    self._cohorts.begin(self._round_number + 1)
    self._state = self._next_round(self._state, cohort).state
    self._cohorts.wait()

  def weights(self) -> list[np.ndarray]:
    """Returns the weights; see `server.Contender`."""
    trainable = self._process.get_model_weights(self._state).trainable
    return [np.asarray(weight) for weight in trainable]

  def _cohort(self, round_number: int) -> list[list[tuple[np.ndarray, np.ndarray]]]:
    """Makes the batches of a round, which are the same in all of them."""
    del round_number
    return [
      workloads.training_batches(
        posts, i, self._workload.max_words, self._workload.vocab_size
      )
      for i, posts in enumerate(self._workload.posts)
    ]


def build_process(
  model: language_models.LanguageModel,
  weights: list[np.ndarray],
  chosen_mechanism: mechanism.Mechanism,
) -> tff.learning.templates.LearningProcess:
  """Builds our process with plain SGD on clients and server."""
  chosen = {
    'client_learning_rate': workloads.CLIENT_LEARNING_RATE,
    'server_optimizer': 'sgd',
    'server_learning_rate': 1.0,
  }
  name = 'dp_fed_avg'
  if isinstance(chosen_mechanism, no_mechanism.NoMechanism):
    name, chosen['client_weighting'] = 'fed_avg', 'uniform'
  algorithm = registry.ALGORITHMS[name]
  return algorithm.build(
    learning_model.from_language_model(model, weights),
    algorithm.settings(**chosen),
    chosen_mechanism,
  )


def no_privacy() -> mechanism.Mechanism:
  """Returns the mechanism of a plain mean."""
  return no_mechanism.NoMechanism('a measurement of speed')


def gaussian(cohort_size: int) -> mechanism.Mechanism:
  """Returns the mechanism of private rounds, of too little noise to hide anything."""
  return central.CentralGaussian(
    sampling='fixed',
    population=cohort_size,
    cohort=cohort_size,
    simulated_population=cohort_size,
    simulated_cohort=cohort_size,
    rounds=MOST_ROUNDS,
    clip=workloads.CLIP,
    noise_multiplier=workloads.NOISE_MULTIPLIER,
    delta=1e-6,
    claim=False,
  )


if __name__ == '__main__':
  num_workers, isolate_workers, log_folder = sys.argv[1:]
  heaps.limit()  # As a run does.
  with execution.execution(
    int(num_workers),
    isolate_workers=isolate_workers,
    log_dir=pathlib.Path(log_folder),
  ):
    server.serve(Ours())
