"""What the tests of reports share: folders as runs and attacks leave them."""

import json

import pytest

from tff_textpriv.privacy import card, central_settings, ledger
from tff_textpriv.privacy.mechanism import Deployment
from tff_textpriv.privacy.no_mechanism import NoMechanism


def _card(epsilon):
  """Makes a real card: of a run under central DP, or of one without a guarantee."""
  plan = NoMechanism('updates are averaged without noise')
  if epsilon is not None:
    settings = central_settings.CentralPrivacySettings(target_epsilon=float(epsilon))
    # All take part, which is accounted at once.
    plan = settings.mechanism(Deployment('poisson', 10, 10, rounds=4))
  book = ledger.Ledger.of(plan)
  for _ in range(4):
    book.charge(plan)
  return card.privacy_card(book, plan, task='imdb', algo='fed_avg', facts={})


@pytest.fixture(scope='session')
def cards():
  """Privacy cards by the epsilon that they were planned for."""
  return {epsilon: _card(epsilon) for epsilon in (None, 1, 4)}


@pytest.fixture
def write_run(tmp_path, cards):
  """Returns what writes the folder of a run that has ended."""

  def write(name, auc=0.8, epsilon=None, config=None, **results):
    folder = tmp_path / name
    folder.mkdir(parents=True)
    settings = {
      'task': 'imdb',
      'algo': 'fed_avg',
      'data': 'embedded',
      'seed': 0,
      'total_rounds': 4,
      **(config or {}),
    }
    (folder / 'config.json').write_text(json.dumps(settings))
    (folder / 'metrics.csv').write_text(
      'round,train_loss,validation_auc\n1,0.9,\n2,0.8,0.6\n3,nan,\n4,0.6,0.75\n'
    )
    privacy = cards[epsilon]
    results = {'rounds': 4, 'epsilon': privacy['epsilon'], 'test_auc': auc, **results}
    (folder / 'results.json').write_text(json.dumps(results))
    card.write(privacy, folder)
    return folder

  return write


@pytest.fixture
def write_attack(tmp_path):
  """Returns what writes the folder of an attack, given recalls by algorithm."""

  def write(recalls, cases=(), privacy=None):
    folder = tmp_path / 'attacks' / 'imdb'
    folder.mkdir(parents=True)
    content = {
      'task': 'imdb',
      'view': 'server',
      'summary': 'Two sentences.',
      'command': 'python -m tff_textpriv.tools.attack',
      'privacy': privacy or {algorithm: {} for algorithm in recalls},
      'rows': [
        {'algorithm': algorithm, 'attack': 'rows', 'table': '-', 'recall': recall}
        for algorithm, values in recalls.items()
        for recall in values
      ],
      'cases': list(cases),
    }
    (folder / 'attack.json').write_text(json.dumps(content))
    return folder

  return write
