"""Arms of a comparison differ in the tokenizer, and in nothing else."""

import itertools

import numpy as np
import pytest

from tff_textpriv.datasets import embedded
from tff_textpriv.experiments import study_files, study_plan
from tff_textpriv.models import sampling
from tff_textpriv.tasks import stackoverflow
from tff_textpriv.text import loading
from tff_textpriv.training import program as program_lib
from tff_textpriv.training import resampling, runner

_ROUNDS = 3
_FLAGS = {
  'num_users': 30,
  'clients_per_round': 4,
  'vocab_size': 700,
  'max_words_per_user': 200,
  'max_eval_users': 1,
  'total_rounds': _ROUNDS,
  'client_batch_size': 4,
  'sample_tokens': 8000,
}
_SEED = 5
_ARMS = {'BPE public', 'BPE sample', 'BPE oracle'}


class _Recorder:
  """Takes the place of training: notes what each round would have been given."""

  def __init__(self, folder):
    self._folder = folder
    self.rounds = []
    self.weights = []

  def __call__(self, program, ledger, folder, runtime):
    tokenizer = loading.read(self._folder / 'tokenizers' / f'{program.phase}.model')
    rounds = []
    for number in range(program.rounds_before + 1, program.total_rounds + 1):
      users, data = program_lib._cohort(program, number)
      rounds.append((users, [_words(tokenizer, batches) for batches in data]))
    self.rounds.append(rounds)
    state = program.process.initialize()
    weights = [
      np.asarray(weight)
      for weight in program.process.get_model_weights(state).trainable
    ]
    self.weights.append(weights)
    last = program.total_rounds
    return program_lib.Outcome(
      weights, state, ledger, last, 'finished', None, weights, last, None
    )


def _words(tokenizer, batches):
  """Returns the text of each row of each batch, as words, in order."""
  return [
    [tokenizer.decode(row[row > 0].tolist()) for row in targets]
    for _, targets in batches
  ]


@pytest.mark.parametrize(
  'name', ['demo', pytest.param('subword_table1', marks=pytest.mark.slow)]
)
def test_arms_see_the_same_users_words_and_initial_weights(tmp_path, monkeypatch, name):
  # What an untrained model writes would make a tokenizer of more tokens than fit into a
  # window; a model that has learnt the users' language writes something like their text.
  users = embedded.build(_SEED, num_train_users=60).train
  texts = [text for user in users.client_ids for text in users.read(user)]
  monkeypatch.setattr(
    resampling.sampling,
    'sample_texts',
    lambda *_, **__: sampling.SampledText(texts, 9999, 0, 0, 1.0),
  )
  given = {name: str(value) for name, value in _FLAGS.items()}
  given['data_dir'] = str(tmp_path / 'data')
  plan = study_plan.make_plan(
    study_files.load(name), stackoverflow.TASK, given, (_SEED,), tmp_path
  )
  recorded = {}
  for run in plan.runs:
    if run.arm.label in _ARMS:
      recorded[run.arm.label] = recorder = _Recorder(run.experiment.folder)
      assert runner.run(run.experiment, recorder) == 0
  assert recorded.keys() == _ARMS
  assert [len(arm.rounds) for arm in recorded.values()].count(2) == 1
  for one, other in itertools.combinations(recorded.values(), 2):
    for (users, words), (other_users, other_words) in zip(
      one.rounds[-1], other.rounds[-1], strict=True
    ):
      assert users == other_users and len(users) == 4
      assert words == other_words
    for ours, theirs in zip(one.weights[-1], other.weights[-1], strict=True):
      np.testing.assert_array_equal(ours, theirs)
  # The test could fail: rounds differ, and so do the halves of the users.
  sampled = recorded['BPE sample']
  assert sampled.rounds[-1][0] != sampled.rounds[-1][1]
  assert not {user for users, _ in sampled.rounds[0] for user in users} & {
    user for users, _ in sampled.rounds[1] for user in users
  }
