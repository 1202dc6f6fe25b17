"""Audits: sound mechanisms hold their claims, planted bugs exceed them."""

import collections
import json
import math

import numpy as np
import pytest
import tensorflow as tf

from tff_textpriv import flags, randomness, results
from tff_textpriv.aggregators import (
  clipping,
  correlated_draws,
  lattice_noise,
)
from tff_textpriv.audits import canary_sampler
from tff_textpriv.privacy import central, count_mean_sketch, randomized_response
from tff_textpriv.runtime import cohorts
from tff_textpriv.settings import IncompatibleSettingsError
from tff_textpriv.tools import audit

_CLASSIFIER = (
  '--task=imdb',
  '--num_clients=10',
  '--max_train_examples=60',
  '--hash_buckets=3000',
)
_CENTRAL = (
  *_CLASSIFIER,
  '--algo=dp_fed_avg',
  '--cohort_sampling=poisson',
  '--client_optimizer=sgd',
  '--delta=1e-5',
  '--accountant=pld',
)
_LANGUAGE = (
  '--task=stackoverflow',
  '--num_users=20',
  '--max_words_per_user=60',
  '--vocab_size=500',
  '--model=lstm_tiny',
)


def _audit(folder, *argv):
  """Returns the exit code and what was found, by its name."""
  code = audit.main([*argv, f'--audit_dir={folder}'])
  content = json.loads((folder / 'audit.json').read_text())
  return code, {finding['name']: finding for finding in content['findings']}


def _without_clip(update, clip, points):
  """`clipping.clip_update` with the clip left out."""
  unit = points.clip / clip
  whole = [tf.cast(tf.round(leaf * unit), tf.int32) for leaf in tf.nest.flatten(update)]
  return collections.OrderedDict(
    update=tf.nest.pack_sequence_as(update, whole),
    unclipped_half=tf.constant(1),
    left_out=tf.constant(0),
  )


def test_a_private_run_holds_its_claim_and_the_audit_is_written(tmp_path, capsys):
  code, found = _audit(
    tmp_path / 'audit', *_CENTRAL, '--total_rounds=2', '--target_epsilon=6',
    '--clients_per_round=8', '--canaries=300',
  )  # fmt: skip
  assert code == 0
  finding = found['rounds']
  assert finding['claimed_epsilon'] == pytest.approx(6, abs=0.01)
  assert 0.1 < finding['epsilon_lower_bound'] < 6
  assert finding['verdict'] == 'not refuted'
  # Two rounds, each with probability 8/10; the noise of both on either side.
  assert finding['score_heads']['mean'] == pytest.approx(1.6, abs=0.5)
  assert finding['score_tails']['mean'] == pytest.approx(0, abs=0.5)
  files = {file.name for file in (tmp_path / 'audit').iterdir()}
  assert files == {'audit.json', 'audit.md', 'audit_rounds.png', 'run.log'}
  printed = capsys.readouterr().out
  assert 'nothing speaks against the claimed 6' in printed
  assert f'could have seen up to {finding["could_show"]:.2f}' in printed
  noise = json.loads((tmp_path / 'audit' / 'audit.json').read_text())['noise']
  assert {check['name']: check['verdict'] for check in noise} == dict.fromkeys(
    ('amount', 'shared', 'tails'), 'sound'
  )
  assert noise[0]['what'] == 'standard deviation of 6,002 draws'
  assert 'imdb with dp_fed_avg' not in printed


def test_a_run_without_clipping_exceeds_its_claim(tmp_path, monkeypatch, capsys):
  monkeypatch.setattr(clipping, 'clip_update', _without_clip)
  code, found = _audit(
    tmp_path, *_CENTRAL, '--total_rounds=1', '--target_epsilon=2', '--canaries=300'
  )
  assert code == 1
  assert found['rounds']['verdict'] == 'EXCEEDED'
  assert found['rounds']['epsilon_lower_bound'] > 3
  assert 'MORE THAN THE 2 THAT IS CLAIMED' in capsys.readouterr().out


_CORRELATED = (
  *_CLASSIFIER, '--algo=dp_ftrl', '--client_optimizer=sgd', '--delta=1e-5',
  '--clients_per_round=3', '--total_rounds=6', '--target_epsilon=8', '--canaries=400',
)  # fmt: skip


@pytest.mark.parametrize(
  'noise',
  ['blt', *(pytest.param(each, marks=pytest.mark.slow) for each in ('banded', 'tree'))],
)
def test_correlated_noise_is_what_is_accounted_for(tmp_path, noise):
  code, found = _audit(tmp_path, *_CORRELATED, f'--ftrl_noise={noise}')
  assert code == 0
  finding = found['rounds']
  assert finding['claimed_epsilon'] == pytest.approx(8, abs=0.01)
  assert 0.1 < finding['epsilon_lower_bound'] < 8
  # Every third round of six is a canary's turn. Five standard errors: scores of a canary
  # have a deviation of 2.7.
  error = 5 * 2.7 / np.sqrt(200)
  assert finding['score_heads']['mean'] == pytest.approx(2, abs=error)
  assert finding['score_tails']['mean'] == pytest.approx(0, abs=error)
  assert set(_noise_verdicts(tmp_path).values()) == {'sound'}


def test_rounds_that_forget_what_they_share_are_caught(tmp_path, monkeypatch):
  # Independent noise hides less of a user's sums than what is accounted for.
  monkeypatch.setattr(
    correlated_draws,
    'next_noise',
    lambda strategy, number, kept, draw, finer: (draw(0) // finer, kept),
  )
  code, _ = _audit(tmp_path, *_CORRELATED)
  assert code == 1
  assert _noise_verdicts(tmp_path)['shared'] == 'FAILED'


_DISTRIBUTED = (
  '--task=imdb', '--num_clients=120', '--max_train_examples=240', '--hash_buckets=3000',
  '--algo=dp_fed_avg', '--mechanism=distributed', '--delta=1e-5', '--missing_share=0.5',
  '--client_optimizer=sgd', '--clients_per_round=60', '--total_rounds=2',
  '--target_epsilon=4', '--canaries=60',
)  # fmt: skip


def test_noise_of_devices_holds_its_claim_in_their_sums(tmp_path):
  code, found = _audit(tmp_path, *_DISTRIBUTED)
  assert code == 0
  finding = found['rounds']
  assert finding['claimed_epsilon'] == pytest.approx(4, abs=0.01)
  assert finding['epsilon_lower_bound'] < 4
  # A canary's one turn in two rounds, among 30: scores have a deviation of 4 or so.
  error = 5 * 4 / np.sqrt(30)
  assert finding['score_heads']['mean'] == pytest.approx(1, abs=error)
  assert finding['score_tails']['mean'] == pytest.approx(0, abs=error)


def test_devices_that_add_no_noise_are_caught(tmp_path, monkeypatch):
  monkeypatch.setattr(
    lattice_noise, 'draw', lambda law, seed, number: tf.zeros([number], tf.int64)
  )
  # So few canaries cannot show more than an epsilon of 2, whatever goes wrong.
  code, found = _audit(tmp_path, *_DISTRIBUTED, '--target_epsilon=0.5')
  assert code == 1
  assert found['rounds']['verdict'] == 'EXCEEDED'


def test_mistakes_are_sentences(tmp_path):
  with pytest.raises(flags.UsageError, match='folder of a run, or else --task'):
    audit.main([])
  with pytest.raises(flags.UsageError, match='folder of a run, or else --task'):
    audit.main(['runs/some', '--task=imdb', '--algo=dp_fed_avg'])
  with pytest.raises(flags.UsageError, match='one argument too many'):
    audit.main(['runs/some', 'runs/other'])
  with pytest.raises(results.ResultsError, match='no config.json'):
    audit.main([str(tmp_path)])
  with pytest.raises(flags.UsageError, match='--clip is not a flag of --algo=fed_avg'):
    audit.main(['--task=imdb', '--algo=fed_avg', '--clip=1'])
  with pytest.raises(IncompatibleSettingsError, match='there is nothing to audit'):
    audit.main(['--task=agnews', '--algo=fede_vocab'])


def test_the_settings_of_a_run_are_those_of_its_folder_unless_given(tmp_path):
  chosen = audit.AuditSettings(task='imdb')
  argv = ['--algo=dp_fed_avg', '--target_epsilon=3', '--adaptive_clipping', '--seed=4']
  experiment = audit.make_experiment(chosen, argv)
  (tmp_path / 'config.json').write_text(json.dumps(experiment.config))
  again = audit.make_experiment(audit.AuditSettings(run=str(tmp_path)), [])
  assert again.config == experiment.config
  other = audit.make_experiment(
    audit.AuditSettings(run=str(tmp_path)), ['--target_epsilon=5']
  )
  assert other.config == {**experiment.config, 'target_epsilon': 5.0}


@pytest.mark.parametrize('sampling', ['poisson', 'fixed'])
def test_canaries_are_drawn_as_users_are_and_users_as_without_them(sampling):
  users = cohorts.CohortSampler(
    [f'user {i}' for i in range(40)], 10, sampling, randomness.Stream.of_seed(5)
  )
  names = [f'canary {i}' for i in range(100)]
  sampler = canary_sampler.CanarySampler(users, names, 7, absent=names[::2])
  drawn = collections.Counter()
  for number in range(1, 401):
    cohort = sampler.cohort(number)
    theirs = users.cohort(number)
    assert cohort[: len(theirs)] == theirs
    assert sampler.reporting(cohort, number) == cohort
    drawn.update(cohort[len(theirs) :])
    # The ledger's names of users are those without canaries, and nobody shares one.
    places = sampler.places(cohort)
    assert places[: len(theirs)] == users.places(theirs)
    assert len(set(places)) == len(places)
    if sampling == 'fixed':
      # Ten of each whole block of forty, of whom every second one is there.
      assert len(cohort) <= 30
  assert set(drawn) == set(names[1::2])
  shares = np.array(list(drawn.values())) / 400
  assert np.abs(shares - 0.25).max() < 4.5 * np.sqrt(0.25 * 0.75 / 400)


# The studies of docs/audit.md, smaller.


@pytest.mark.slow
@pytest.mark.parametrize('epsilon', [1, 4, 10])
@pytest.mark.parametrize('sampling', ['poisson', 'fixed'])
def test_dp_fed_avg_holds_its_claim(tmp_path, sampling, epsilon):
  argv = [*_CENTRAL, '--total_rounds=2', f'--target_epsilon={epsilon}']
  if sampling == 'fixed':
    argv += ['--cohort_sampling=fixed', '--accountant=rdp']
  code, found = _audit(tmp_path, *argv, '--canaries=1000')
  assert code == 0
  assert found['rounds']['claimed_epsilon'] == pytest.approx(epsilon, rel=0.01)
  assert epsilon < 4 or found['rounds']['epsilon_lower_bound'] > 0.4


@pytest.mark.slow
@pytest.mark.parametrize('phase_plan', ['switch', 'half_split'])
def test_subword_resample_and_its_words_hold_their_claims(tmp_path, phase_plan):
  code, found = _audit(
    tmp_path,
    *_LANGUAGE,
    '--algo=subword_resample',
    f'--phase_plan={phase_plan}',
    '--tokenizer_source=heavy_hitters',
    '--heavy_hitters_epsilon=4',
    '--sample_tokens=2000',
    '--total_rounds=2',
    # Fewer than half of the 20 users: a half is only about one.
    '--clients_per_round=8',
    '--target_epsilon=8',
    '--delta=1e-5',
    '--accounted_population=20',
    '--accounted_cohort=8',
    '--canaries=300',
  )
  assert code == 0
  assert found['rounds']['epsilon_lower_bound'] > 0
  assert 1 < found['words']['epsilon_lower_bound'] <= 4
  assert found['words']['claimed_epsilon'] == pytest.approx(4)


@pytest.mark.slow
def test_rr_ldp_is_met_bit_by_bit_and_held_by_users(tmp_path):
  code, found = _audit(
    tmp_path,
    *_CLASSIFIER,
    '--algo=rr_ldp',
    '--coordinates_per_client=20',
    '--epsilon_per_coordinate=0.5',
    '--total_rounds=2',
    '--canaries=300',
  )
  assert code == 0
  assert 0.4 < found['bits']['epsilon_lower_bound'] <= 0.5
  assert found['bits']['guesses'] == 20 * 2 * 300
  assert found['reports']['epsilon_lower_bound'] > 1


@pytest.mark.slow
def test_fed_att_holds_its_claim_whatever_the_attention(tmp_path):
  code, found = _audit(
    tmp_path,
    *_CLASSIFIER,
    '--algo=fed_att',
    '--attention=paper',
    '--clip_norm=0.5',
    '--noise_magnitude=1',
    '--noise_stddev=1',
    '--total_rounds=2',
    '--canaries=300',
  )
  assert code == 0
  assert found['reports']['epsilon_lower_bound'] > 0.5
  assert found['reports']['verdict'] in ('holds', 'not refuted')


@pytest.mark.slow
def test_without_a_claim_there_is_only_a_bound(tmp_path, capsys):
  code, found = _audit(
    tmp_path, *_CLASSIFIER, '--algo=fed_avg', '--total_rounds=1', '--canaries=100'
  )
  assert code == 0
  assert found['rounds']['verdict'] == 'no claim'
  assert found['rounds']['epsilon_lower_bound'] > 2
  assert 'there is no claim to audit' in capsys.readouterr().out


@pytest.mark.slow
def test_the_figure_of_a_larger_deployment_is_not_what_is_audited(tmp_path, capsys):
  code, found = _audit(
    tmp_path,
    *_CENTRAL,
    '--accountant=rdp',
    '--delta=1e-7',
    '--total_rounds=1',
    '--target_epsilon=2',
    '--accounted_population=1000000',
    '--accounted_cohort=1000',
    '--canaries=100',
  )
  assert code == 0
  assert found['rounds']['claimed_epsilon'] > 100
  assert 'its own population, cohort and noise' in capsys.readouterr().out


def _noise_verdicts(folder):
  content = json.loads((folder / 'audit.json').read_text())
  return {check['name']: check['verdict'] for check in content['noise']}


def _half_noise(monkeypatch):
  stddev = central.CentralGaussian.sum_stddev
  monkeypatch.setattr(
    central.CentralGaussian, 'sum_stddev', lambda self, clip: stddev(self, clip) / 2
  )


def _one_noise(monkeypatch):
  seeds = central.CentralGaussian.round_seeds
  monkeypatch.setattr(
    central.CentralGaussian,
    'round_seeds',
    lambda self: np.repeat(seeds(self)[:1], self.rounds, 0),
  )


def _no_tails(monkeypatch):
  draw = lattice_noise.draw

  def cut(law, seed, number):
    most = tf.cast(3 * law.stddev, tf.int64)
    return tf.clip_by_value(draw(law, seed, number), -most, most)

  monkeypatch.setattr(lattice_noise, 'draw', cut)


@pytest.mark.parametrize(
  ('plant', 'name'),
  [
    (_half_noise, 'amount'),
    pytest.param(_one_noise, 'shared', marks=pytest.mark.slow),
  ],
)
def test_noise_that_is_not_what_is_accounted_for_is_caught(
  tmp_path, monkeypatch, capsys, plant, name
):
  plant(monkeypatch)
  code, found = _audit(
    tmp_path, *_CENTRAL, '--total_rounds=2', '--target_epsilon=10', '--canaries=20'
  )
  assert code == 1
  # The canaries see nothing of it.
  assert found['rounds']['verdict'] != 'EXCEEDED'
  verdicts = _noise_verdicts(tmp_path)
  assert verdicts.pop(name) == 'FAILED'
  assert set(verdicts.values()) == {'sound'}
  assert f'NOT WHAT IS ACCOUNTED FOR ({name})' in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize('epsilon', [1, 4, 10])
@pytest.mark.parametrize(
  ('plant', 'name'),
  [(_half_noise, 'amount'), (_one_noise, 'shared'), (_no_tails, 'tails')],
)
def test_wrong_noise_is_caught_at_every_claim(
  tmp_path, monkeypatch, plant, name, epsilon
):
  plant(monkeypatch)
  code, _ = _audit(
    tmp_path,
    *_CENTRAL,
    '--total_rounds=4',
    f'--target_epsilon={epsilon}',
    '--canaries=20',
  )
  assert code == 1
  assert _noise_verdicts(tmp_path)[name] == 'FAILED'


@pytest.mark.slow
def test_known_cohorts_are_seen_and_secret_ones_hold(tmp_path):
  argv = (
    *_CENTRAL,
    '--num_clients=50',
    '--max_train_examples=600',
    '--clients_per_round=5',
    '--total_rounds=4',
    '--target_epsilon=1',
    '--canaries=2000',
    '--audit_runs=5',
  )
  code, secret = _audit(tmp_path / 'secret', *argv)
  assert code == 0
  code, known = _audit(tmp_path / 'known', *argv, '--known_cohorts')
  assert code == 1
  bounds = [each['rounds']['epsilon_lower_bound'] for each in (secret, known)]
  assert bounds[0] < 0.5 and bounds[1] > 1
  assert 'cohorts known' in known['rounds']['audited']


def _quarter_noise(monkeypatch):
  stddev = central.CentralGaussian.sum_stddev
  monkeypatch.setattr(
    central.CentralGaussian, 'sum_stddev', lambda self, clip: stddev(self, clip) / 4
  )


def _noise_of_the_mean(monkeypatch):
  stddev = central.CentralGaussian.sum_stddev
  monkeypatch.setattr(
    central.CentralGaussian,
    'sum_stddev',
    lambda self, clip: stddev(self, clip) / self.simulated_cohort,
  )


@pytest.mark.slow
@pytest.mark.parametrize('plant', [_quarter_noise, _noise_of_the_mean])
def test_too_little_noise_is_caught(tmp_path, monkeypatch, plant):
  plant(monkeypatch)
  code, found = _audit(
    tmp_path, *_CENTRAL, '--total_rounds=1', '--target_epsilon=1', '--canaries=1000'
  )
  assert code == 1
  assert found['rounds']['epsilon_lower_bound'] > 1


@pytest.mark.slow
def test_cohorts_of_everybody_are_caught_where_a_sample_is_accounted(
  tmp_path, monkeypatch
):
  monkeypatch.setattr(
    cohorts.CohortSampler, 'cohort', lambda self, number: list(self.client_ids)
  )
  code, found = _audit(
    tmp_path,
    *_CENTRAL,
    '--clients_per_round=1',
    '--total_rounds=4',
    '--target_epsilon=1',
    '--canaries=1000',
  )
  assert code == 1
  assert found['rounds']['epsilon_lower_bound'] > 1


@pytest.mark.slow
def test_clipping_that_is_left_out_is_caught_in_local_noise(tmp_path, monkeypatch):
  monkeypatch.setattr(clipping, 'clip_update', _without_clip)
  code, _ = _audit(
    tmp_path,
    *_CLASSIFIER,
    '--algo=fed_att',
    '--clip_norm=0.5',
    '--noise_magnitude=1',
    '--noise_stddev=4',
    '--total_rounds=1',
    '--canaries=300',
  )
  assert code == 1


@pytest.mark.slow
def test_bits_that_are_flipped_too_seldom_are_caught(tmp_path, monkeypatch):
  draws = randomized_response.BitResponse.flip_draws.fget
  monkeypatch.setattr(
    randomized_response.BitResponse,
    'flip_draws',
    property(lambda self: round(draws(self) * 0.95)),
  )
  code, found = _audit(
    tmp_path, *_CLASSIFIER, '--algo=rr_ldp', '--total_rounds=1', '--canaries=100'
  )
  assert code == 1
  assert 1 < found['bits']['epsilon_lower_bound'] < 1.1


@pytest.mark.slow
def test_cells_that_are_flipped_by_the_whole_epsilon_are_caught(tmp_path, monkeypatch):
  # Two cells differ between words; the bug takes them for one.
  monkeypatch.setattr(
    count_mean_sketch.SketchParameters,
    'flip_threshold',
    property(lambda self: round(2**32 / (1 + math.exp(self.epsilon_per_word)))),
  )
  code, found = _audit(
    tmp_path,
    *_LANGUAGE,
    '--algo=dp_fed_avg',
    '--tokenizer_source=heavy_hitters',
    '--heavy_hitters_epsilon=1',
    '--heavy_hitters_words_per_user=1',
    '--clients_per_round=10',
    '--total_rounds=1',
    '--target_epsilon=4',
    '--canaries=1000',
  )
  assert code == 1
  assert found['words']['verdict'] == 'EXCEEDED'
