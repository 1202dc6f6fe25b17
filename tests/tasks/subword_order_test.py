"""The claim of subword_resample, on the embedded corpus."""

import json
import pathlib

import pytest

from tff_textpriv.tasks import base, stackoverflow
from tff_textpriv.training import runner

_SHARED = (
  '--num_users=400',
  '--clients_per_round=5',
  '--client_batch_size=4',
  '--rounds_per_eval=200',
  '--delta=1e-8',
)
_DP_FED_AVG = (
  '--algo=dp_fed_avg',
  '--train_users=second_half',
  '--target_epsilon=2',
  '--accounted_population=10000000',
  '--accounted_cohort=20000',
)
_ARMS = {
  'public': _DP_FED_AVG,
  'sample': ('--algo=subword_resample', '--phase_plan=half_split'),
  'oracle': (*_DP_FED_AVG, '--tokenizer_source=oracle', '--privacy_claim=false'),
}


def _results(root: pathlib.Path, rounds: int, sampled_rounds: int) -> list[dict]:
  """Measures models that the same users trained with each tokenizer, on test users.

  Args:
    root: A folder for the runs.
    rounds: Rounds of these models.
    sampled_rounds: Rounds of the model that is sampled.

  Returns:
    The results with the public, the sampled and the oracle's tokenizer.
  """
  results = []
  for name, flags in _ARMS.items():
    more = (f'--resample_rounds={sampled_rounds}',) if name == 'sample' else ()
    argv = [
      *flags,
      *_SHARED,
      *more,
      f'--total_rounds={rounds}',
      f'--server_decay_rounds={sampled_rounds}',
      f'--root_output_dir={root}',
      f'--experiment_name={name}',
      f'--data_dir={root / "data"}',
    ]
    assert runner.run(base.parse(stackoverflow.TASK, argv)) == 0
    results.append(json.loads((root / name / 'results.json').read_text()))
  return results


@pytest.mark.slow
def test_a_sampled_tokenizer_needs_hardly_more_tokens_than_the_oracle(tmp_path):
  results = _results(tmp_path, rounds=1, sampled_rounds=80)
  public, sample, oracle = (each['test_tokens_per_word'] for each in results)
  assert oracle < sample < public
  assert sample - oracle < public - sample
  # Text like the users': nearer to it than public text is.
  divergence = [each['tokenizer_kl'] for each in results]
  assert divergence[2] == 0 < divergence[1] < divergence[0]
  # And at the same price.
  assert results[0]['epsilon'] == pytest.approx(results[1]['epsilon'], rel=1e-3)


@pytest.mark.slow
def test_its_perplexity_is_nearer_to_the_oracle_than_to_public_text(tmp_path):
  results = _results(tmp_path, rounds=200, sampled_rounds=200)
  public, sample, oracle = (each['test_word_perplexity'] for each in results)
  assert oracle < public and sample < public
  assert abs(sample - oracle) < public - sample
