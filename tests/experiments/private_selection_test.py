"""What runs cost together, and choosing the best of them under a promise."""

import json
import math
import pathlib

import dp_accounting
import numpy as np
import pytest
import stand_in_run
from dp_accounting import dp_event, rdp
from scipy import stats

from tff_textpriv.experiments import private_selection, sweep_costs, sweep_grid
from tff_textpriv.privacy.costs import Bits, SampledGaussian
from tff_textpriv.privacy.ledger import Ledger
from tff_textpriv.privacy.ledger_entries import CENTRAL, LOCAL, Entry
from tff_textpriv.randomness import Stream
from tff_textpriv.tasks import base, imdb
from tff_textpriv.tools import sweep
from tff_textpriv.training import journal, secret

_COST = SampledGaussian('poisson', 1_000, 100, 4.0)
_DELTA = 1e-5
_PRIVATE = (
  '--task=imdb',
  '--algo=dp_fed_avg',
  '--noise_multiplier=4',
  '--cohort_sampling=poisson',
  '--noise_source=system',
)
_GRID = (*_PRIVATE, '--client_learning_rate=0.1,0.2')


def _ledger(cost=_COST, count=20, kind=CENTRAL, **more):
  return Ledger(_DELTA, 'rdp', (Entry(kind, 'rounds', '', count, cost, **more),))


def _gaussian_event(count):
  sampled = dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(4.0))
  return dp_accounting.SelfComposedDpEvent(sampled, count)


def _by_hand(event):
  return rdp.RdpAccountant().compose(event).get_epsilon(_DELTA)


# The number of runs.


@pytest.mark.parametrize(('mean', 'shape'), [(10, 1), (3, 0.5), (5, 2), (1.5, 1)])
def test_the_number_of_runs_has_the_mean_that_is_accounted(mean, shape):
  probabilities = np.exp(
    private_selection.Repetitions(mean, shape).log_probabilities(5_000)
  )
  assert probabilities.sum() == pytest.approx(1)
  assert probabilities @ np.arange(1, 5_001) == pytest.approx(mean, rel=1e-6)


def test_with_shape_1_the_number_of_runs_is_geometric():
  logs = private_selection.Repetitions(10, 1).log_probabilities(30)
  np.testing.assert_allclose(np.exp(logs), stats.geom.pmf(np.arange(1, 31), 0.1))


def _p_value(draw, repetitions, number=4_000):
  """Compares drawn numbers of runs with their distribution by a chi-squared test."""
  drawn = np.array([draw(Stream.of_seed(seed)) for seed in range(number)])
  probabilities = np.exp(repetitions.log_probabilities(20))
  expected = number * np.append(probabilities, 1 - probabilities.sum())
  observed = np.bincount(np.minimum(drawn, 21), minlength=22)[1:]
  return stats.chisquare(observed, expected).pvalue


@pytest.mark.parametrize('shape', [0.5, 1, 3])
def test_the_number_of_runs_is_drawn_from_its_distribution(shape):
  repetitions = private_selection.Repetitions(6, shape)
  assert _p_value(repetitions.draw, repetitions) > 1e-3


def test_a_number_of_runs_that_is_fixed_or_of_another_mean_would_be_found():
  repetitions = private_selection.Repetitions(6)
  assert _p_value(lambda _: 6, repetitions) < 1e-6
  assert _p_value(private_selection.Repetitions(6.6).draw, repetitions) < 1e-3


def test_a_quantile_is_exceeded_as_seldom_as_it_says():
  most = private_selection.Repetitions(10).quantile(1e-8)
  assert stats.geom.sf(most, 0.1) <= 1e-8 < stats.geom.sf(most - 1, 0.1)


# The figure.


@pytest.mark.parametrize('shape', [0.5, 1.0])
def test_the_figure_is_that_of_dp_accounting(shape):
  repetitions = private_selection.Repetitions(10, shape)
  event = dp_event.RepeatAndSelectDpEvent(_gaussian_event(20), 10, shape)
  figure = private_selection.promise([_ledger()] * 3, repetitions)
  # A thousandth of delta is set aside for very many runs.
  assert _by_hand(event) < figure < 1.001 * _by_hand(event)
  assert _by_hand(_gaussian_event(20)) < figure < _by_hand(_gaussian_event(200))


def test_the_figure_by_hand_from_the_theorem():
  # RDP of the choice: rdp + log(mean) / (order - 1) + (1 + shape) min_order' of
  # (1 - 1 / order') rdp' + log(1 / gamma) / order', with gamma = 1 / mean for shape 1.
  accountant = rdp.RdpAccountant().compose(_gaussian_event(20))
  orders, one = np.array(accountant.orders), accountant.rdp
  choice = 2 * np.min((1 - 1 / orders) * one + math.log(10) / orders)
  chosen = one + math.log(10) / (orders - 1) + choice
  expected, _ = rdp.compute_epsilon(orders, chosen, _DELTA * (1 - 1e-3))
  figure = private_selection.promise([_ledger()], private_selection.Repetitions(10))
  assert figure == pytest.approx(expected, rel=1e-9)


def test_drawing_the_noise_costs_for_as_many_runs_as_there_may_be():
  repetitions = private_selection.Repetitions(10)
  drawn = SampledGaussian('poisson', 1_000, 100, 4.0, num_draws=10**6)
  most = repetitions.quantile(1e-3 * _DELTA)
  added = 20 * most * drawn.own_epsilon
  figure = private_selection.promise([_ledger(drawn)], repetitions)
  assert added > 0
  exact = private_selection.promise([_ledger()], repetitions)
  assert exact + added <= figure < 1.001 * exact + added


@pytest.mark.parametrize(
  ('others', 'problem'),
  [
    (
      [_ledger(SampledGaussian('poisson', 1_000, 100, 5.0))],
      'not all promise the same',
    ),
    ([_ledger(count=21)], 'not all promise the same'),
    ([_ledger(SampledGaussian('fixed', 1_000, 100, 4.0))], 'not all promise the same'),
  ],
)
def test_runs_that_cost_different_things_are_refused(others, problem):
  with pytest.raises(private_selection.SelectionError, match=problem):
    private_selection.promise([_ledger(), *others], private_selection.Repetitions(10))


def test_runs_without_a_central_promise_are_refused():
  repetitions = private_selection.Repetitions(10)
  local = _ledger(Bits(1.0, 3), kind=LOCAL, by_user=True)
  with pytest.raises(private_selection.SelectionError, match='users randomized'):
    private_selection.promise([local], repetitions)
  with pytest.raises(private_selection.SelectionError, match='users in groups'):
    private_selection.promise([_ledger(group='half')], repetitions)
  none = _ledger()
  none.note_no_guarantee('x', 'y')
  with pytest.raises(private_selection.SelectionError, match='not all promise'):
    private_selection.promise([none], repetitions)


# The runs.


def _grid(*flags, folder=pathlib.Path('sweeps/one')):
  passed_on = [flag for flag in flags if not flag.startswith(('--task', '--algo'))]
  return sweep_grid.make_runs(imdb.TASK, ('dp_fed_avg',), passed_on, 1, folder)


def test_each_run_takes_a_configuration_at_random_and_a_folder_of_its_own(tmp_path):
  grid = _grid(*_GRID, folder=tmp_path)
  many = private_selection.Repetitions(400, 50)
  runs = private_selection.draw_runs(grid, many, tmp_path)
  rates = [run.config['client_learning_rate'] for run in runs]
  assert len({run.folder for run in runs}) == len(runs) > 100
  assert stats.binomtest(rates.count(0.1), len(rates)).pvalue > 1e-4
  experiment = base.parse(imdb.TASK, runs[3].argv)
  assert experiment.folder == runs[3].folder == tmp_path / 'run_4'
  # Their secret decides, and stays: a sweep that was stopped goes on with the same.
  assert runs == private_selection.draw_runs(grid, many, tmp_path)
  assert (tmp_path / secret.FILE).stat().st_mode & 0o777 == 0o600
  (tmp_path / 'other').mkdir()
  assert len(private_selection.draw_runs(grid, many, tmp_path / 'other')) != len(runs)


def test_a_sweep_whose_secret_is_lost_is_refused(tmp_path):
  (tmp_path / 'run_1').mkdir()
  with pytest.raises(private_selection.SelectionError, match='secret.key is missing'):
    private_selection.draw_runs(
      _grid(*_GRID), private_selection.Repetitions(2), tmp_path
    )


@pytest.mark.parametrize(
  ('arguments', 'problem'),
  [
    ((*_PRIVATE[:-1], '--noise_source=seeded'), 'noise_source=system'),
    (('--task=imdb', '--algo=fed_avg'), 'noise_source=system'),
    ((*_PRIVATE, '--seed=1,2'), 'one --seed'),
    ((*_PRIVATE, '--seeds=3'), 'draws how many runs'),
    ((*_PRIVATE, '--selection_mean=1'), '> 1'),
  ],
)
def test_what_promises_nothing_is_refused_before_any_run(tmp_path, arguments, problem):
  with pytest.raises(ValueError, match=problem):
    sweep.main([*arguments, '--private_selection', f'--sweep_dir={tmp_path}'])
  assert not list(tmp_path.rglob('config.json'))


def _finished(run, auc, *, of_this_model=True):
  """Writes what a finished run leaves."""
  metrics = f'round,validation_auc\n1,0.9\n2,{auc}\n'
  experiment = base.parse(imdb.TASK, run.argv)
  results = {'rounds': 2, 'selected_round': 2, 'epsilon': 1.0, 'test_auc': auc + 0.01}
  stand_in_run.write(experiment, results, metrics)
  journal.Journal(run.folder).write(journal.Place(0, 2), _ledger())
  (run.folder / 'model.keras').write_text(f'model of {run.name}')
  content = {
    'algo': 'dp_fed_avg', 'task': 'imdb', 'headline': 'h', 'delta': _DELTA,
    'of_this_model': of_this_model, 'plan': {'unit': 'user', 'rounds_done': 2},
    'reasons': [], 'warnings': [], 'threat_model': 't', 'blocks': [], 'ledger': [],
    'leaves_device': [], 'not_covered': ['Choosing hyper-parameters: spends.'],
    'facts': {},
  }  # fmt: skip
  (run.folder / 'privacy_card.json').write_text(json.dumps(content))


@pytest.fixture
def three(tmp_path):
  """Three finished runs, of which the second is the best."""
  (one, *_) = _grid(*_PRIVATE, folder=tmp_path)
  runs = [private_selection._renamed(one, f'run_{i}', tmp_path) for i in (1, 2, 3)]
  for run, auc in zip(runs, (0.7125, 0.8125, 0.7625), strict=True):
    _finished(run, auc)
  return runs


def test_the_best_by_validation_is_released_and_nothing_of_the_others(three, tmp_path):
  card = private_selection.release(
    three, private_selection.Repetitions(10), tmp_path, 'command'
  )
  selected = tmp_path / 'selected'
  assert (selected / 'model.keras').read_text() == 'model of run_2'
  assert json.loads((selected / 'privacy_card.json').read_text()) == card
  assert card['epsilon'] == private_selection.promise(
    [_ledger()], private_selection.Repetitions(10)
  )
  assert card['accountant'] == 'rdp' and card['accounting']['pld']['epsilon'] is None
  assert (
    'Only the chosen model is covered' in (selected / 'privacy_card.md').read_text()
  )
  assert 'validation figures that decided are exact' in str(card['not_covered'])
  released = [*selected.rglob('*'), tmp_path / 'sweep_summary.md']
  for file in released:
    said = file.read_text()
    assert not any(
      number in said for number in ('7125', '8125', '7225', '8225', '7725')
    )
    assert not any(run.name in said for run in three) or file.name == 'model.keras'
  assert not {'metrics.csv', 'ledger.json', 'secret.key'} & {f.name for f in released}


def test_runs_whose_models_carry_no_figure_are_not_chosen_from(three, tmp_path):
  repetitions = private_selection.Repetitions(10)
  _finished(three[0], 0.5, of_this_model=False)
  with pytest.raises(private_selection.SelectionError, match='no guarantee of its own'):
    private_selection.release(three, repetitions, tmp_path, 'command')
  _finished(three[0], 0.5)
  (three[0].folder / 'ledger.json').unlink()
  with pytest.raises(private_selection.SelectionError, match='no guarantee of its own'):
    private_selection.release(three, repetitions, tmp_path, 'command')
  assert not (tmp_path / 'selected').exists()


# What all runs cost together.


def test_runs_together_cost_the_composition_of_all_their_rounds(three):
  together = sweep_costs.of_runs([run.folder for run in three])
  assert together.epsilon == pytest.approx(_by_hand(_gaussian_event(60)))
  assert together.num_runs == 3 and not together.reasons
  words = together.in_words()
  assert words.startswith(
    f'All 3 runs together: ({math.ceil(together.epsilon * 1e3) / 1e3:.3f}'
  )
  assert 'RDP' in words


def test_runs_of_different_noise_are_composed_too(three):
  one = dp_accounting.SelfComposedDpEvent(
    dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(2.0)), 20
  )
  both = dp_accounting.ComposedDpEvent([one, _gaussian_event(40)])
  _with_ledger(three[0], _ledger(SampledGaussian('poisson', 1_000, 100, 2.0)))
  together = sweep_costs.of_runs([run.folder for run in three])
  assert together.epsilon == pytest.approx(_by_hand(both))


def _with_ledger(run, ledger):
  (run.folder / 'ledger.json').unlink()
  journal.Journal(run.folder).write(journal.Place(0, 2), ledger)


def test_users_in_groups_pay_for_the_group_that_pays_most(three):
  halves = Ledger(
    _DELTA,
    'rdp',
    (
      Entry(CENTRAL, 'rounds', '', 20, _COST, 'first half'),
      Entry(CENTRAL, 'rounds', '', 30, _COST, 'second half'),
    ),
  )
  for run in three:
    _with_ledger(run, halves)
  together = sweep_costs.of_runs([run.folder for run in three])
  assert together.epsilon == pytest.approx(_by_hand(_gaussian_event(90)))


def test_a_run_that_claims_nothing_leaves_all_without_a_guarantee(three):
  none = _ledger()
  none.note_no_guarantee('rounds', 'no noise')
  _with_ledger(three[0], none)
  together = sweep_costs.of_runs([run.folder for run in three])
  assert together.epsilon is None
  assert 'together: no guarantee. Of the 3 runs, 1 claim nothing' in together.in_words()


def test_seeded_and_scaled_runs_are_named_as_such(three):
  config = json.loads((three[0].folder / 'config.json').read_text())
  content = json.dumps({**config, 'noise_source': 'seeded'})
  (three[0].folder / 'config.json').write_text(content)
  _finished(three[1], 0.5, of_this_model=False)
  words = sweep_costs.of_runs([run.folder for run in three]).in_words()
  assert words.startswith('All 3 runs together: no guarantee. What they stand for: (')
  assert '1 have seeded noise' in words
  assert '1 stand for a deployment of another size' in words


def test_different_neighbours_are_not_composed(three):
  _with_ledger(three[0], _ledger(SampledGaussian('fixed', 1_000, 100, 4.0)))
  together = sweep_costs.of_runs([run.folder for run in three])
  assert together.epsilon is None and 'others if one is replaced' in together.in_words()


def test_local_reports_are_added_and_said_to_be(three):
  _with_ledger(three[0], _ledger(Bits(0.1, 3), count=2, kind=LOCAL, by_user=True))
  together = sweep_costs.of_runs([run.folder for run in three])
  assert together.epsilon > _by_hand(_gaussian_event(40))
  assert 'about other neighbours' in together.in_words()


def test_runs_that_have_not_begun_cost_nothing(tmp_path):
  assert 'no run has spent' in sweep_costs.of_runs([tmp_path / 'a']).in_words()
