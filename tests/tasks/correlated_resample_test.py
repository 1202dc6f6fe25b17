"""subword_resample under correlated noise, from data to card, and interrupted."""

import json
import math

import dp_accounting
import pytest

from tff_textpriv.tasks import base, stackoverflow
from tff_textpriv.training import output, runner

_ROUNDS = 6
_FLAGS = (
  '--algo=subword_resample',
  '--num_users=12',
  '--clients_per_round=4',
  '--vocab_size=700',
  '--max_words_per_user=200',
  '--max_eval_users=2',
  f'--total_rounds={_ROUNDS}',
  '--rounds_per_eval=3',
  '--rounds_per_checkpoint=2',
  '--resample_rounds=2',
  '--sample_tokens=4000',
  '--sample_max_length=24',
  '--server_optimizer=sgd',
  # Of the users themselves: the figure is the simulation's own.
  '--accounted_population=12',
  '--accounted_cohort=4',
)


def _run(folder, *given):
  where = [
    f'--root_output_dir={folder.parent}',
    f'--experiment_name={folder.name}',
    f'--data_dir={folder.parent / "data"}',
  ]
  return runner.run(base.parse(stackoverflow.TASK, [*_FLAGS, *given, *where]))


@pytest.mark.slow
def test_phases_are_charged_one_by_one_and_an_interrupted_run_ends_the_same(tmp_path):
  whole, parts = tmp_path / 'whole', tmp_path / 'parts'
  flags = ('--mechanism=dp_ftrl',)
  assert _run(whole, *flags) == 0
  card = json.loads((whole / 'privacy_card.json').read_text())
  plan = card['plan']
  assert card['formal_guarantee'] and 1.99 < card['epsilon'] <= 2
  assert (plan['phases'], plan['rounds_done'], plan['rounds_planned']) == (2, 6, 6)
  # Twelve users, four in a round: once in the first two rounds, twice in the other four.
  assert (plan['separation'], plan['participations']) == (3, 1 + 2)
  # All that was spent follows from the sensitivity and the noise.
  theirs = dp_accounting.pld.PLDAccountant()
  theirs.compose(
    dp_accounting.GaussianDpEvent(plan['noise_multiplier'] / plan['sensitivity'])
  )
  assert card['epsilon'] == pytest.approx(theirs.get_epsilon(card['delta']), rel=1e-3)
  rounds = [entry for entry in card['ledger'] if entry['name'] == 'training rounds']
  assert [entry['count'] for entry in rounds] == [2, 4]
  assert 'phase 2 of 2' in rounds[1]['description']
  assert json.loads((whole / 'config.json').read_text())['mechanism'] == 'dp_ftrl'

  # Within the second phase, whose noise has begun anew.
  assert _run(parts, *flags, '--stop_after_round=5') != 0
  with pytest.raises(output.OutputError, match='--mechanism: dp_ftrl before'):
    _run(parts)
  assert _run(parts, *flags) == 0
  for name in ('metrics.csv', 'results.json', 'privacy_card.json', 'config.json'):
    assert (parts / name).read_bytes() == (whole / name).read_bytes(), name
  assert math.isfinite(json.loads((whole / 'results.json').read_text())['epsilon'])
