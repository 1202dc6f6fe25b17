"""The studies of the private-vocabulary paper: its tables and figures of utility.

All methods train the same model with the same optimizer on the clients, and average
with a server step of 1. What is measured are users' own models after a round of local
training, on the common test and on one with their own class shares; on the latter also
the models as users receive them. The attacks have studies of their own.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from tff_textpriv.tools.studies import Arm, Scale, Study

_TASKS = ('agnews', 'sst2', 'newsgroups')
_GLOBAL, _LOCAL = 'test_global_accuracy', 'test_local_accuracy'
_COLUMNS = (_GLOBAL, _LOCAL, 'test_received_local_accuracy', 'bytes_up_per_client')
_PLAIN_STEP = ('--server_optimizer=sgd', '--server_learning_rate=1')
_METHODS = {
  # The paper gives it ten epochs, since it has no rounds.
  'Local': ('--algo=local_only', '--total_rounds=10'),
  'FedAvg': ('--algo=fed_avg', *_PLAIN_STEP),
  'FedProx': ('--algo=fed_prox', *_PLAIN_STEP),
  'LG-FedAvg': ('--algo=lg_fedavg',),
  'FedRecon': ('--algo=fed_recon',),
  'FedeVocab': ('--algo=fede_vocab',),
}
# Figures of the tables, in percent: global and local accuracy on 20News, AG News, SST-2.
_PAPER_TASKS = ('newsgroups', 'agnews', 'sst2')
_TABLE_3 = {
  'Local': ((8.2, 59.4), (32.5, 77.8), (51.1, 82.5)),
  'FedAvg': ((73.6, 78.4), (87.2, 92.2), (92.3, 95.0)),
  'FedProx': ((73.5, 78.3), (88.4, 92.9), (92.2, 94.9)),
  'LG-FedAvg': ((53.5, 80.0), (63.2, 89.8), (63.8, 85.5)),
  'FedRecon': ((75.5, 82.0), (87.1, 94.1), (93.0, 95.8)),
  'FedeVocab': ((75.2, 86.8), (87.8, 95.5), (92.5, 95.6)),
}
_TABLE_4 = {
  'Local': ((7.3, 42.2), (34.0, 64.6), (54.7, 83.7)),
  'FedAvg': ((35.4, 56.3), (84.1, 91.6), (83.0, 89.6)),
  'FedProx': ((35.6, 56.3), (84.3, 90.1), (82.8, 89.2)),
  'LG-FedAvg': ((14.4, 53.4), (48.1, 88.7), (59.1, 85.6)),
  'FedRecon': ((38.3, 57.3), (86.0, 92.0), (85.4, 90.2)),
  'FedeVocab': ((40.3, 58.6), (86.9, 92.8), (87.8, 92.1)),
}
_TABLE_6 = {
  'Local': ((9.2, 60.7), (37.2, 79.7), (51.8, 83.0)),
  'FedAvg': ((80.1, 83.9), (88.9, 93.2), (95.2, 96.7)),
  'FedProx': ((80.2, 83.8), (89.7, 93.7), (95.5, 96.7)),
  'LG-FedAvg': ((57.3, 85.1), (64.7, 89.6), (65.7, 87.8)),
  'FedRecon': ((78.4, 87.3), (86.0, 93.6), (94.6, 96.9)),
  'FedeVocab': ((77.5, 91.5), (89.3, 95.9), (94.2, 96.9)),
}
# Table 5: without adaptive updating, DistilBERT and BiLSTM.
_NOT_ADAPTIVE = {
  'encoder': ((72.9, 78.7), (86.2, 93.3), (90.7, 94.3)),
  'bilstm': ((37.1, 55.4), (86.3, 91.5), (85.1, 89.8)),
}
# Users have the words of their own text and, of the vectors or the checkpoint, the most
# frequent ones: otherwise all words of a test that are new to a user would look alike.
_PUBLIC_WORDS = '--public_words=10000'
_BILSTM = (
  '--model=bilstm_small',
  _PUBLIC_WORDS,
  '--client_optimizer=adam',
  '--client_learning_rate=0.005',
)
_ENCODER = (
  '--model=encoder_tiny',
  _PUBLIC_WORDS,
  '--dropout=0.1',
  '--client_optimizer=adamw',
  '--client_learning_rate=5e-5',
)
_Figures = tuple[tuple[float, float], ...]


def _by_task(figures: _Figures) -> dict[str, dict[str, float]]:
  """Puts the paper's percentages under our tasks."""
  return {
    task: {_GLOBAL: both / 100, _LOCAL: own / 100}
    for task, (both, own) in zip(_PAPER_TASKS, figures, strict=True)
  }


def _table(
  figures: Mapping[str, _Figures], *, decays: bool
) -> Callable[[Scale], list[Arm]]:
  """Makes the arms of a table of all methods.

  Args:
    figures: The paper's.
    decays: Whether the clients' step size falls over the rounds.
  """

  def arms(scale: Scale) -> list[Arm]:
    made = []
    for method, flags in _METHODS.items():
      # TFF's builder of FedRecon has no schedule.
      if decays and method != 'FedRecon':
        flags = (*flags, f'--client_decay_rounds={scale.total_rounds}')
      made.append(Arm(method, flags, _by_task(figures[method])))
    return made

  return arms


def _ablation(figures: _Figures, without: _Figures) -> list[Arm]:
  return [
    Arm('FedeVocab', ('--algo=fede_vocab',), _by_task(figures)),
    Arm(
      'without adaptive updating',
      ('--algo=fede_vocab', '--adaptive_updating=false'),
      _by_task(without),
    ),
  ]


def _communication(scale: Scale) -> list[Arm]:
  del scale  # One round tells what all cost.
  return [
    Arm(method, (*flags, '--total_rounds=1', '--max_eval_users=1'))
    for method, flags in _METHODS.items()
  ]


def _starts(scale: Scale) -> list[Arm]:
  del scale  # The same arms at any scale.
  return [
    Arm('same start', ('--algo=fede_vocab',)),
    Arm('different start', ('--algo=fede_vocab', '--different_init=true')),
  ]


def _study(
  name: str, title: str, arms: Callable[[Scale], list[Arm]], **more: Any
) -> Study:
  study = Study(
    name,
    title,
    arms,
    columns=_COLUMNS,
    tasks=_TASKS,
    metric='local_accuracy',
    row_header='method',
    default_flags=_BILSTM,
  )
  return dataclasses.replace(study, **more)


VOCAB_STUDIES = (
  _study(
    'vocab_table3',
    'Methods with an encoder like DistilBERT (Table 3)',
    _table(_TABLE_3, decays=True),
    default_flags=_ENCODER,
  ),
  _study(
    'vocab_table4', 'Methods with a BiLSTM (Table 4)', _table(_TABLE_4, decays=False)
  ),
  _study(
    'vocab_table5',
    'Adaptive updating of a BiLSTM (Table 5)',
    lambda scale: _ablation(_TABLE_4['FedeVocab'], _NOT_ADAPTIVE['bilstm']),
  ),
  _study(
    'vocab_table5_encoder',
    'Adaptive updating of an encoder (Table 5)',
    lambda scale: _ablation(_TABLE_3['FedeVocab'], _NOT_ADAPTIVE['encoder']),
    default_flags=_ENCODER,
  ),
  _study(
    'vocab_table6',
    'Methods with an encoder like BERT-Base (Table 6)',
    _table(_TABLE_6, decays=True),
    default_flags=_ENCODER,
  ),
  _study(
    'vocab_figure4',
    'Bytes that a client sends in a round (Figure 4)',
    _communication,
    columns=('bytes_down_per_client', 'bytes_up_per_client'),
    metric='bytes_up_per_client',
  ),
  _study('vocab_figure5', 'Same and different start vectors (Figure 5)', _starts),
)
