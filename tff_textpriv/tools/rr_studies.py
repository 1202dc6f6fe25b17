"""The studies of the randomized-response paper: its tables on IMDB and MovieLens.

The paper's two tables of a kind, one a data set, are one study with `--task`. Its
client learning rates, and with them the quantization ranges, are those of the task.
"""

from collections.abc import Mapping

from tff_textpriv.tools.studies import Arm, Scale, Study

_TASKS = ('imdb', 'movielens')
_CLIENTS = (10, 50, 100, 250)
_ROUNDS = (1, 5, 10, 15, 20, 25, 30, 40, 50)
_LEARNING_RATES = {'imdb': 0.001, 'movielens': 0.01}

# Central training by Adam 0.001, stopped where it is best on validation examples.
_CENTRAL = (
  '--algo=central',
  '--client_learning_rate=0.001',
  '--client_batch_size=128',
  '--total_rounds=6',
  '--rounds_per_eval=1',
  '--model_selection=best_validation',
)

# Tables 1 and 2: AUC by round (rows) and number of clients (columns).
_BY_ROUND = {
  'imdb': (
    (0.586, 0.558, 0.724, 0.570),
    (0.789, 0.699, 0.810, 0.814),
    (0.841, 0.836, 0.847, 0.854),
    (0.869, 0.872, 0.875, 0.879),
    (0.889, 0.895, 0.899, 0.899),
    (0.898, 0.909, 0.911, 0.911),
    (0.899, 0.913, 0.916, 0.915),
    (0.894, 0.916, 0.919, 0.919),
    (0.885, 0.915, 0.918, 0.918),
  ),
  'movielens': (
    (0.695, 0.682, 0.649, 0.552),
    (0.717, 0.716, 0.711, 0.644),
    (0.722, 0.720, 0.716, 0.681),
    (0.723, 0.722, 0.720, 0.699),
    (0.724, 0.724, 0.722, 0.707),
    (0.725, 0.726, 0.723, 0.709),
    (0.727, 0.726, 0.725, 0.712),
    (0.728, 0.728, 0.727, 0.715),
    (0.729, 0.729, 0.728, 0.718),
  ),
}
_CENTRAL_AUC = {'imdb': 0.923, 'movielens': 0.730}

# Tables 3 and 4: AUC by quantization range (rows) and number of clients.
_BY_RANGE = {
  'imdb': {
    0.01: (0.678, 0.727, 0.757, 0.792),
    0.001: (0.860, 0.877, 0.886, 0.887),
    0.0001: (0.887, 0.903, 0.900, 0.891),
    0.00001: (0.801, 0.882, 0.888, 0.875),
  },
  'movielens': {
    1.0: (0.665, 0.699, 0.702, 0.699),
    0.1: (0.721, 0.723, 0.725, 0.718),
    0.01: (0.730, 0.730, 0.729, 0.712),
    0.001: (0.731, 0.730, 0.728, 0.710),
  },
}

# Tables 5 and 6: AUC by epsilon (rows) and number of clients.
_BY_EPSILON = {
  'imdb': {
    0.1: (0.586, 0.782, 0.776, 0.839),
    1.0: (0.871, 0.866, 0.894, 0.890),
    10.0: (0.887, 0.903, 0.900, 0.891),
  },
  'movielens': {
    0.1: (0.713, 0.718, 0.718, 0.713),
    1.0: (0.728, 0.729, 0.728, 0.710),
    10.0: (0.730, 0.730, 0.729, 0.712),
  },
}

# Table 8: accuracy and AUC, in percent, of logistic regression and of the network.
_BY_BUCKETS = {
  5_000: ((85.8, 93.0), (85.8, 92.9)),
  10_000: ((87.0, 94.0), (87.1, 93.8)),
  20_000: ((87.5, 94.4), (87.4, 94.0)),
  50_000: ((88.0, 94.9), (87.9, 94.4)),
  90_860: ((88.1, 95.0), (88.1, 94.6)),
}
_REFERENCES = {
  'term frequency': (
    ('--representation=term_frequency',),
    ((88.1, 94.8), (87.7, 94.0)),
  ),
  'word2vec': (
    ('--representation=word2vec', '--embedding_size=300'),
    ((86.3, 93.5), (84.2, 91.6)),
  ),
  'word2vec, 5,000 words': (
    ('--representation=word2vec', '--embedding_size=300', '--vocab_size=5000'),
    ((86.5, 93.9), (83.6, 89.6)),
  ),
}

# Table 9: accuracy and AUC, in percent, for embeddings of 100, 200 and 300.
_BY_EMBEDDING = {
  5_000: ((84.9, 92.3), (84.8, 92.3), (84.9, 92.4)),
  10_000: ((85.9, 93.1), (85.8, 93.1), (85.7, 93.1)),
  20_000: ((86.5, 93.5), (86.4, 93.5), (86.3, 93.4)),
  50_000: ((86.9, 94.1), (86.9, 94.0), (86.9, 93.9)),
}

_Paper = Mapping[str, Mapping[str, float]]


def _auc(task: str, value: float) -> _Paper:
  return {task: {'test_auc': value}}


def _percent(task: str, figures: tuple[float, float]) -> _Paper:
  """Puts accuracy and AUC in percent in our units."""
  accuracy, auc = figures
  return {task: {'test_accuracy': accuracy / 100, 'test_auc': auc / 100}}


def _central(scale: Scale) -> Arm:
  """Returns the reference: the same model, trained on all data in one place."""
  return Arm('central', _CENTRAL, _auc(scale.task, _CENTRAL_AUC[scale.task]))


def _rate(scale: Scale) -> tuple[str, ...]:
  """Returns the paper's learning rate of the task, unless another one is given."""
  if 'client_learning_rate' in scale.given:
    return ()
  return (f'--client_learning_rate={_LEARNING_RATES[scale.task]:g}',)


def _private(scale: Scale, num_clients: int, *flags: str) -> tuple[str, ...]:
  return ('--algo=rr_ldp', *_rate(scale), f'--num_clients={num_clients}', *flags)


def _tables_1_and_2(scale: Scale) -> list[Arm]:
  arms = []
  for column, num_clients in enumerate(_CLIENTS):
    figures = {
      f'validation_auc@{number}': row[column]
      for number, row in zip(_ROUNDS, _BY_ROUND[scale.task], strict=True)
    }
    arms.append(
      Arm(
        f'N={num_clients}',
        _private(scale, num_clients, '--rounds_per_eval=1'),
        {scale.task: figures},
      )
    )
  return [*arms, _central(scale)]


def _grid(
  scale: Scale, flag: str, symbol: str, figures: Mapping[float, tuple[float, ...]]
) -> list[Arm]:
  """Varies one flag and the number of clients."""
  return [
    *(
      Arm(
        f'{symbol}={value:g} N={num_clients}',
        _private(scale, num_clients, f'--{flag}={value:g}'),
        _auc(scale.task, row[column]),
        f'N={num_clients}',
        value,
      )
      for value, row in figures.items()
      for column, num_clients in enumerate(_CLIENTS)
    ),
    _central(scale),
  ]


def _tables_3_and_4(scale: Scale) -> list[Arm]:
  return _grid(scale, 'quantization_range', 'q', _BY_RANGE[scale.task])


def _tables_5_and_6(scale: Scale) -> list[Arm]:
  return _grid(scale, 'epsilon_per_coordinate', 'epsilon', _BY_EPSILON[scale.task])


def _table_7(scale: Scale) -> list[Arm]:
  paper = {
    'movielens': ((68.2, 74.5), (67.6, 75.6)),
    'imdb': ((85.6, 92.3), (84.4, 92.7)),
  }[scale.task]
  lstm = '--model=lstm_network'
  return [
    Arm('central', (*_CENTRAL, lstm), _percent(scale.task, paper[0])),
    Arm('rr_ldp', _private(scale, 100, lstm), _percent(scale.task, paper[1])),
  ]


def _table_8(scale: Scale) -> list[Arm]:
  rows = {
    f'M={buckets:,}': (('--representation=hash', f'--hash_buckets={buckets}'), figures)
    for buckets, figures in _BY_BUCKETS.items()
  }
  arms = [
    Arm(
      f'{label}, {model}',
      (*_CENTRAL, f'--model={model}', *flags),
      _percent(scale.task, figures[column]),
    )
    for column, model in enumerate(('logistic', 'network'))
    for label, (flags, figures) in (rows | _REFERENCES).items()
  ]
  return arms + _mean_vectors(scale, 'logistic', 'network')


def _mean_vectors(scale: Scale, *models: str) -> list[Arm]:
  """Returns runs on averaged pre-trained vectors, if a file of them is given."""
  if not scale.vectors_file:
    return []
  return [
    Arm(
      f'pre-trained vectors, {model}',
      (*_CENTRAL, f'--model={model}', '--representation=vectors'),
    )
    for model in models
  ]


def _table_9(scale: Scale) -> list[Arm]:
  return [
    Arm(
      f'M={buckets:,} embedding {size}',
      (
        *_CENTRAL,
        '--model=network',
        '--representation=hash_words',
        f'--hash_buckets={buckets}',
        f'--embedding_size={size}',
      ),
      _percent(scale.task, figures[column]),
      f'embedding {size}',
      float(buckets),
    )
    for column, size in enumerate((100, 200, 300))
    for buckets, figures in _BY_EMBEDDING.items()
  ]


def _table_10(scale: Scale) -> list[Arm]:
  arms = [
    Arm('no text', (*_CENTRAL, '--keywords=none'), _percent(scale.task, (64.3, 67.9))),
    Arm('hash', _CENTRAL, _percent(scale.task, (68.1, 72.9))),
  ]
  if scale.vectors_file:
    # The paper's are fastText's, of 300 dimensions.
    arms.append(
      Arm(
        'pre-trained vectors, averaged',
        (*_CENTRAL, '--representation=vectors'),
        _percent(scale.task, (68.2, 73.2)),
      )
    )
  return arms


_UPDATES = ('--updates_per_epoch=3',)
_FIGURES = ('test_accuracy', 'test_auc')

RR_STUDIES = (
  Study(
    'rr_rounds',
    'Clients and rounds (Tables 1 and 2)',
    _tables_1_and_2,
    columns=(*(f'validation_auc@{number}' for number in _ROUNDS), 'test_auc'),
    plots_rounds=True,
    tasks=_TASKS,
    metric='auc',
    row_header='clients',
    default_flags=(*_UPDATES, '--total_rounds=50'),
  ),
  Study(
    'rr_quantization',
    'Quantization range (Tables 3 and 4)',
    _tables_3_and_4,
    columns=_FIGURES,
    x_label='quantization range q',
    tasks=_TASKS,
    metric='auc',
    row_header='range and clients',
    default_flags=(*_UPDATES, '--epsilon_per_coordinate=10', '--rounds_per_eval=25'),
  ),
  Study(
    'rr_epsilon',
    'Epsilon per coordinate and round (Tables 5 and 6)',
    _tables_5_and_6,
    columns=_FIGURES,
    x_label='epsilon of a coordinate in a round',
    tasks=_TASKS,
    metric='auc',
    row_header='epsilon and clients',
    default_flags=(*_UPDATES, '--rounds_per_eval=25'),
  ),
  Study(
    'rr_lstm',
    'An LSTM in front of the network (Table 7)',
    _table_7,
    columns=_FIGURES,
    tasks=_TASKS,
    metric='auc',
    row_header='training',
    default_flags=_UPDATES,
  ),
  Study(
    'rr_representations',
    'Hash buckets and other representations (Table 8)',
    _table_8,
    columns=_FIGURES,
    tasks=('imdb',),
    metric='auc',
    row_header='representation',
  ),
  Study(
    'rr_embedding',
    'Size of the trained embedding (Table 9)',
    _table_9,
    columns=_FIGURES,
    x_label='hash buckets M',
    tasks=('imdb',),
    metric='auc',
    row_header='sizes',
  ),
  Study(
    'rr_keywords',
    'What keywords add (Table 10)',
    _table_10,
    columns=_FIGURES,
    tasks=('movielens',),
    metric='auc',
    row_header='keywords',
  ),
)
