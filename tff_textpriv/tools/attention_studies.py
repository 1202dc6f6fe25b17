"""The studies of the attentive aggregation paper: its tables and figures.

Its FedAvg is the plain mean of the clients' models: server SGD with a step of 1, which
for attentive aggregation is the step that replaces the model by a weighted mean of
theirs. Flags of the command line, the client's among them, hold for both methods.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from tff_textpriv.tools.studies import Arm, Scale, Study

_Arms = Callable[[Scale], list[Arm]]

_TASKS = ('wikitext2', 'ptb', 'reddit')
_PLAIN_STEP = ('--server_optimizer=sgd', '--server_learning_rate=1')
_METHODS = {
  'FedAvg': ('--algo=fed_avg', *_PLAIN_STEP),
  'FedAttOpt': ('--algo=fed_att', '--attention=exact'),
}
# What else the authors wrote or printed; the paper has no figures for these.
_VARIANTS = {
  'as printed': ('--algo=fed_att', '--attention=paper'),
  'layerwise': ('--algo=fed_att', '--attention=layerwise'),
}
_PERPLEXITY = 'test_token_perplexity'
_ROUNDS = 'rounds_to_target'
_COLUMNS = (_PERPLEXITY, 'selected_round')

# Table 2: test perplexity on WikiText-2, Penn Treebank and Reddit.
_FED_SGD = (112.45, 155.27, 244.49)
_TABLE_2 = {
  (0.1, 'FedAvg'): (95.27, 138.13, 243.76),
  (0.1, 'FedAttOpt'): (72.25, 116.49, 129.87),
  (0.5, 'FedAvg'): (79.75, 128.24, 244.83),
  (0.5, 'FedAttOpt'): (75.58, 117.82, 212.37),
}
# The one point of Figure 2 that the text gives a number for.
_FIGURE_2 = {(0.3, 'FedAttOpt'): (64.52,)}
_FRACTIONS = (0.1, 0.3, 0.5, 0.7, 0.9)
_EPOCHS = (1, 5, 10, 15, 20)
_BATCH_SIZES = (10, 20, 30, 40, 50)
# Table 3, on WikiText-2: FedAvg and FedAttOpt by the magnitude of the noise.
_TABLE_3 = {
  0.0: (88.21, 72.31),
  0.001: (88.17, 71.60),
  0.005: (88.36, 72.27),
  0.01: (89.74, 73.71),
  0.05: (103.17, 108.58),
}
# Table 4, on WikiText-2: FedAvg and FedAttOpt by the size of the model, tied or not.
_TABLE_4 = {
  ('small', True): (88.21, 71.60),
  ('small', False): (91.25, 71.88),
  ('medium', True): (103.07, 76.21),
  ('medium', False): (96.67, 73.80),
  ('large', True): (77.51, 74.49),
  ('large', False): (82.97, 72.85),
}


def _by_task(perplexities: tuple[float, ...]) -> dict[str, dict[str, float]]:
  """Puts the paper's perplexities, of one data set or more, under our tasks."""
  return {
    task: {_PERPLEXITY: value}
    for task, value in zip(_TASKS, perplexities, strict=False)
  }


def _share(scale: Scale, fraction: float) -> str:
  """Returns the flag that draws a fraction of the clients."""
  return f'--clients_per_round={max(1, round(fraction * scale.num_clients))}'


def _table_2(scale: Scale) -> list[Arm]:
  arms = [
    Arm(
      'FedSGD all',
      ('--algo=fed_sgd', *_PLAIN_STEP, _share(scale, 1)),
      _by_task(_FED_SGD),
    )
  ]
  for fraction in (0.1, 0.5):
    for method, flags in (_METHODS | _VARIANTS).items():
      arms.append(
        Arm(
          f'{method} {fraction:g}',
          (*flags, _share(scale, fraction)),
          _by_task(_TABLE_2.get((fraction, method), ())),
        )
      )
  return arms


def _by_fraction(scale: Scale) -> list[Arm]:
  arms = []
  for method, flags in _METHODS.items():
    for fraction in _FRACTIONS:
      arms.append(
        Arm(
          f'{method} {fraction:g}',
          (*flags, _share(scale, fraction)),
          _by_task(_FIGURE_2.get((fraction, method), ())),
          method,
          fraction,
        )
      )
  return arms


def _by_number(flag: str, numbers: tuple[int, ...]) -> list[Arm]:
  """Makes the arms of a figure over the values of one flag."""
  return [
    Arm(
      f'{method} {number}',
      (*flags, f'--{flag}={number}'),
      curve=method,
      x=float(number),
    )
    for method, flags in _METHODS.items()
    for number in numbers
  ]


def _by_epochs(scale: Scale) -> list[Arm]:
  del scale  # The same arms at any scale.
  return _by_number('client_epochs_per_round', _EPOCHS)


def _by_batch_size(scale: Scale) -> list[Arm]:
  del scale  # The same arms at any scale.
  return _by_number('client_batch_size', _BATCH_SIZES)


def _table_3(scale: Scale) -> list[Arm]:
  del scale  # The same arms at any scale.
  # FedAvg with noise is attention that is the same for all clients.
  methods = {
    'FedAvg': ('--algo=fed_att', '--attention=uniform'),
    'FedAttOpt': _METHODS['FedAttOpt'],
  }
  return [
    Arm(
      f'{method} noise {magnitude:g}',
      (*flags, f'--noise_magnitude={magnitude:g}'),
      _by_task((perplexity,)),
    )
    for magnitude, figures in _TABLE_3.items()
    for (method, flags), perplexity in zip(methods.items(), figures, strict=True)
  ]


def _table_4(scale: Scale) -> list[Arm]:
  del scale  # It is about the sizes.
  arms = []
  for (size, tied), figures in _TABLE_4.items():
    model = (f'--model=gru_{size}', f'--tied_embeddings={str(tied).lower()}')
    for (method, flags), perplexity in zip(_METHODS.items(), figures, strict=True):
      label = f'{method} {size} {"tied" if tied else "untied"}'
      arms.append(Arm(label, (*flags, *model), _by_task((perplexity,))))
  return arms


def _study(name: str, title: str, arms: _Arms, **more: Any) -> Study:
  study = Study(
    name,
    title,
    arms,
    columns=_COLUMNS,
    tasks=_TASKS,
    metric='token_perplexity',
    row_header='method',
    default_flags=('--model_selection=best_validation',),
  )
  return dataclasses.replace(study, **more)


def _rounds_study(name: str, title: str, arms: _Arms, x_label: str) -> Study:
  """Makes a study of the rounds until a perplexity, of which every one is evaluated."""
  return _study(
    name,
    title,
    arms,
    columns=(_ROUNDS, *_COLUMNS),
    metric=_ROUNDS,
    x_label=x_label,
    x_scale='linear',
    default_flags=(
      '--model_selection=best_validation',
      '--target_perplexity=90',
      '--rounds_per_eval=1',
    ),
  )


ATTENTION_STUDIES = (
  _study('attention_table2', 'FedSGD, FedAvg and attention (Table 2)', _table_2),
  _study(
    'attention_figure2',
    'Perplexity by the fraction of clients (Figure 2)',
    _by_fraction,
    x_label='fraction of clients',
    x_scale='linear',
  ),
  _rounds_study(
    'attention_figure3',
    'Rounds by the fraction of clients (Figure 3)',
    _by_fraction,
    'fraction of clients',
  ),
  _rounds_study(
    'attention_figure4', 'Rounds by local epochs (Figure 4)', _by_epochs, 'local epochs'
  ),
  _rounds_study(
    'attention_figure5',
    'Rounds by local batch size (Figure 5)',
    _by_batch_size,
    'local batch size',
  ),
  _study('attention_table3', 'Noise on the clients’ models (Table 3)', _table_3),
  _study('attention_table4', 'Size of the model, tied or not (Table 4)', _table_4),
  _study(
    'attention_curves',
    'Learning curves of FedAvg and attention',
    lambda scale: [
      Arm(method, flags) for method, flags in (_METHODS | _VARIANTS).items()
    ],
    columns=(_ROUNDS, *_COLUMNS),
    plots_rounds=True,
  ),
)
