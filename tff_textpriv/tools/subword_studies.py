"""The studies of the sub-word sampling paper: its tables and figures."""

import dataclasses

from tff_textpriv.tools.studies import Arm, Scale, Study

_DP = ('--algo=dp_fed_avg',)
_PUBLIC = (*_DP, '--tokenizer_source=public')
_ORACLE = (*_DP, '--tokenizer_source=oracle', '--privacy_claim=false')
_SAMPLE = ('--algo=subword_resample', '--phase_plan=switch')
# Table 1 trains every language model on the second half of the users; the first
# half is for finding the tokenizer.
_SECOND_HALF = ('--train_users=second_half',)
_HALF_SPLIT = ('--algo=subword_resample', '--phase_plan=half_split')


_Figures = dict[str, float]


def _figures(
  kl: float | None,
  oov: float,
  tokens: float,
  accuracy: float,
  perplexity: float | None,
) -> _Figures:
  """Puts a row of the paper's Table 1 in our units."""
  values = {
    'tokenizer_kl': kl,
    'test_oov_share': oov / 100,
    'test_tokens_per_word': tokens,
    'test_word_accuracy': accuracy / 100,
    'test_word_perplexity': perplexity,
  }
  return {name: value for name, value in values.items() if value is not None}


def _both(reddit: _Figures, stackoverflow: _Figures) -> dict[str, _Figures]:
  return {'reddit': reddit, 'stackoverflow': stackoverflow}


def _perplexities(reddit: float, stackoverflow: float) -> dict[str, _Figures]:
  return _both(
    {'test_word_perplexity': reddit}, {'test_word_perplexity': stackoverflow}
  )


def _table_1(scale: Scale) -> list[Arm]:
  del scale  # The same arms at any scale.
  word = (*_SECOND_HALF, '--tokenizer=word')
  return [
    Arm(
      'word public',
      (*_PUBLIC, *word),
      _both(
        _figures(None, 13.0, 1.0, 17.7, None), _figures(None, 9.8, 1.0, 30.0, None)
      ),
    ),
    Arm(
      'word oracle',
      (*_ORACLE, *word),
      _both(_figures(None, 5.5, 1.0, 24.1, None), _figures(None, 2.0, 1.0, 33.0, None)),
    ),
    Arm(
      'BPE public',
      (*_PUBLIC, *_SECOND_HALF),
      _both(_figures(0.78, 0, 1.32, 22.2, 276.5), _figures(1.06, 0, 1.41, 31.8, 124.6)),
    ),
    Arm(
      'BPE oracle',
      (*_ORACLE, *_SECOND_HALF),
      _both(_figures(0, 0, 1.22, 22.5, 256.9), _figures(0, 0, 1.24, 32.4, 108.2)),
    ),
    Arm(
      'BPE sample',
      _HALF_SPLIT,
      _both(_figures(0.02, 0, 1.22, 22.5, 257.7), _figures(0.01, 0, 1.23, 32.4, 108.7)),
    ),
    Arm(
      'BPE heavy hitters',
      (*_DP, '--tokenizer_source=heavy_hitters', *_SECOND_HALF),
      _both(_figures(0.09, 0, 1.30, 22.1, 274.2), _figures(0.10, 0, 1.29, 32.1, 115.9)),
    ),
  ]


def _table_2(scale: Scale) -> list[Arm]:
  return [
    Arm('public', (*_PUBLIC, *_SECOND_HALF), _perplexities(276.5, 124.6)),
    Arm(
      'other domain',
      (*_PUBLIC, *_SECOND_HALF, f'--public_data={scale.cross_data}'),
      _perplexities(283.6, 118.8),
    ),
    Arm('oracle', (*_ORACLE, *_SECOND_HALF), _perplexities(256.9, 108.2)),
    Arm('sample', _HALF_SPLIT, _perplexities(257.7, 108.7)),
  ]


# Perplexities of Table 3 by vocabulary size, in multiples of the default 10,000.
_TABLE_3 = {
  0.5: (_perplexities(304.3, 136.3), _perplexities(282.2, 116.8)),
  1.0: (_perplexities(276.5, 124.6), _perplexities(256.9, 108.2)),
  5.0: (_perplexities(243.9, 111.5), _perplexities(225.4, 101.5)),
  10.0: (_perplexities(231.2, 108.9), _perplexities(217.9, 100.5)),
}


def _table_3(scale: Scale) -> list[Arm]:
  arms = []
  for factor, (public, oracle) in _TABLE_3.items():
    size = round(scale.vocab_size * factor)
    for curve, flags, paper in (
      ('public', _PUBLIC, public),
      ('oracle', _ORACLE, oracle),
    ):
      arms.append(
        Arm(
          f'{curve} {size}', (*flags, f'--vocab_size={size}'), paper, curve, float(size)
        )
      )
  return arms


def _table_4(scale: Scale) -> list[Arm]:
  paper = {
    ('transformer', 'public'): _perplexities(261.9, 117.4),
    ('transformer', 'oracle'): _perplexities(244.8, 107.0),
    ('lstm', 'public'): _perplexities(276.5, 124.6),
    ('lstm', 'oracle'): _perplexities(256.9, 108.2),
  }
  flags = {'public': _PUBLIC, 'oracle': _ORACLE}
  return [
    Arm(
      f'{architecture} {source}',
      (*flags[source], f'--model={architecture}_{scale.model_size}'),
      figures,
    )
    for (architecture, source), figures in paper.items()
  ]


def _figure_3(scale: Scale) -> list[Arm]:
  switches = [round(scale.total_rounds * share) for share in (0.2, 0.4, 0.6, 0.8)]
  return [
    Arm('public', _PUBLIC),
    *(
      Arm(f'switch at {number}', (*_SAMPLE, f'--resample_rounds={number}'))
      for number in switches
    ),
    Arm('oracle', _ORACLE),
  ]


def _figure_4(scale: Scale) -> list[Arm]:
  del scale  # The same budgets at any scale.
  return [
    Arm(
      f'{curve} epsilon {epsilon:g}',
      (*flags, f'--target_epsilon={epsilon:g}'),
      curve=curve,
      x=epsilon,
    )
    for curve, flags in (('public', _PUBLIC), ('sample', _SAMPLE), ('oracle', _ORACLE))
    for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0)
  ]


def _figure_5(scale: Scale) -> list[Arm]:
  del scale  # The cohort that is accounted for decides the noise.
  return [
    Arm(
      f'{curve} cohort {cohort}',
      (*flags, f'--accounted_cohort={cohort}'),
      curve=curve,
      x=float(cohort),
    )
    for curve, flags in (('public', _PUBLIC), ('sample', _SAMPLE), ('oracle', _ORACLE))
    for cohort in (2_500, 5_000, 10_000, 20_000)
  ]


def _demo(scale: Scale) -> list[Arm]:
  """Takes three rows of Table 1."""
  wanted = ('BPE public', 'BPE sample', 'BPE oracle')
  by_label = {arm.label: arm for arm in _table_1(scale)}
  return [dataclasses.replace(by_label[label], paper={}) for label in wanted]


_STUDIES = (
  Study('demo', 'Does a tokenizer that is learnt by sampling pay?', _demo),
  Study('subword_table1', 'Where the tokenizer comes from (Table 1)', _table_1),
  Study('subword_table2', 'Public text of another domain (Table 2)', _table_2),
  Study(
    'subword_table3',
    'Size of the vocabulary (Table 3)',
    _table_3,
    x_label='vocabulary size',
  ),
  Study('subword_table4', 'LSTM and transformer (Table 4)', _table_4),
  Study(
    'subword_figure3',
    'When to change the tokenizer (Figure 3)',
    _figure_3,
    plots_rounds=True,
  ),
  Study('subword_figure4', 'Privacy budget (Figure 4)', _figure_4, x_label='epsilon'),
  Study(
    'subword_figure5',
    'Cohort that is accounted for (Figure 5)',
    _figure_5,
    x_label='users a round',
  ),
)

# The privacy of the paper's runs.
_DEFAULT_FLAGS = (
  '--target_epsilon=2',
  '--delta=1e-6',
  '--accounted_population=10000000',
  '--accounted_cohort=20000',
)

SUBWORD_STUDIES = tuple(
  dataclasses.replace(study, default_flags=_DEFAULT_FLAGS) for study in _STUDIES
)
