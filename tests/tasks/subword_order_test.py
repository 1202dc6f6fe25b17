"""The claim of subword_resample, on the embedded corpus."""

import json
import pathlib

import pytest

from tff_textpriv.tasks import base, stackoverflow
from tff_textpriv.training import language_modeling

_SHARED = (
  '--num_users=400',
  '--clients_per_round=5',
  '--client_batch_size=4',
  '--total_rounds=120',
  '--server_decay_rounds=120',
  '--rounds_per_eval=120',
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


@pytest.fixture(scope='module')
def results(tmp_path_factory) -> dict[str, dict[str, float]]:
  """Test results of models that the same users trained with each tokenizer."""
  root: pathlib.Path = tmp_path_factory.mktemp('order')
  measured = {}
  for name, flags in _ARMS.items():
    argv = [
      *flags,
      *_SHARED,
      f'--root_output_dir={root}',
      f'--experiment_name={name}',
      f'--data_dir={root / "data"}',
    ]
    assert language_modeling.run(base.parse(stackoverflow.TASK, argv)) == 0
    measured[name] = json.loads((root / name / 'results.json').read_text())
  return measured


@pytest.mark.parametrize('metric', ['test_tokens_per_word', 'test_word_perplexity'])
def test_a_sampled_tokenizer_is_nearer_to_the_oracle_than_to_a_public_one(
  results, metric
):
  public, sample, oracle = (results[name][metric] for name in _ARMS)
  assert oracle < sample < public
  assert sample - oracle < public - sample


def test_sampling_costs_no_epsilon(results):
  assert results['sample']['epsilon'] == pytest.approx(results['public']['epsilon'])
