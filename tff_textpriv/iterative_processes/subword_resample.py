"""Sub-word resampling: DP-FedAvg that learns its tokenizer by sampling the model."""

import dataclasses

from tff_textpriv.iterative_processes import algorithm, dp_fed_avg
from tff_textpriv.privacy import (
  central_settings,
  distributed_settings,
  ftrl_settings,
)
from tff_textpriv.settings import Settings, SettingsError, setting

AUTO = 'auto'
# Checks in a run that finds the time of its switch, if nothing is said.
_NUM_CHECKS = 10


@dataclasses.dataclass(frozen=True)
class SubwordResampleSettings(dp_fed_avg.DpFedAvgSettings):
  """DP-FedAvg that learns its tokenizer by sampling the model."""

  phase_plan: str = setting(
    'switch',
    'What happens after sampling: the same model goes on with the new tokenizer '
    '(switch), or users are split in halves and the second half trains a fresh model '
    '(half_split).',
    choices=('switch', 'half_split'),
  )
  resample_rounds: tuple[int, ...] = setting(
    (),
    'Rounds after which the tokenizer is learnt anew, e.g. 1000,2000; by default half '
    'way. With half_split, the rounds of the first half’s model; by default all.',
    low=1,
  )
  sample_tokens: int = setting(
    200_000, 'Tokens to sample from the model for a new tokenizer.', low=1
  )
  sample_temperature: float = setting(
    1.0, 'Temperature of sampling; 1 samples the model as it is.', above=0
  )
  sample_max_length: int | None = setting(
    None,
    'Tokens after which a sampled text is cut off; by default those of the longest '
    'training example that there can be, four per word of --max_sentence_words.',
    low=2,
  )
  switch: str = setting(
    'at_rounds',
    'When the tokenizer is learnt anew: after --resample_rounds (at_rounds), or once, as '
    'soon as the tokenizers of two checks in a row agree (auto).',
    choices=('at_rounds', AUTO),
  )
  switch_check_rounds: int | None = setting(
    None,
    f'Rounds between checks, with --switch={AUTO}; by default a tenth of all.',
    low=1,
  )
  switch_agreement: float = setting(
    0.9,
    f'With --switch={AUTO}, the share of sampled tokens whose pieces two checks must '
    'have in common.',
    above=0,
    high=1,
  )
  switch_sample_tokens: int = setting(
    50_000, f'Tokens to sample for a check, with --switch={AUTO}.', low=1
  )
  append_pieces: int = setting(
    0,
    'Append so many pieces at most to the tokenizer, whose ids stay as they are, for '
    'clients that have it already; 0 replaces it.',
    low=0,
  )
  distillation_epochs: int = setting(
    0,
    'Passes over the samples on which the server trains the model under the new '
    'tokenizer before its first round, at no cost in privacy.',
    low=0,
  )
  distillation_learning_rate: float = setting(
    0.001, 'Step size of Adam, with --distillation_epochs.', above=0
  )

  @property
  def learns_tokenizer(self) -> bool:
    """See the base class."""
    return True

  def legs(self, total_rounds: int) -> tuple[algorithm.Leg, ...]:
    """Returns one phase more than tokenizers are learnt; see the base class."""
    rounds = self.resample_rounds
    if self.switch == AUTO:
      rounds = self._checks(total_rounds)
    if self.phase_plan == 'half_split':
      if len(rounds) > 1:
        raise SettingsError(
          'resample_rounds',
          rounds,
          'with --phase_plan=half_split, the rounds of the first half’s model: one '
          'number',
        )
      (first,) = rounds or (total_rounds,)
      return (
        algorithm.Leg(0, first, algorithm.FIRST_HALF),
        algorithm.Leg(first, first + total_rounds, algorithm.SECOND_HALF),
      )
    rounds = rounds or (total_rounds // 2,)
    increasing = all(a < b for a, b in zip(rounds, rounds[1:], strict=False))
    if not increasing or rounds[0] < 1 or rounds[-1] >= total_rounds:
      raise SettingsError(
        'resample_rounds',
        rounds,
        f'must be increasing rounds from 1 to {total_rounds - 1}, before the last of '
        f'--total_rounds={total_rounds}',
      )
    bounds = (0, *rounds, total_rounds)
    return tuple(
      algorithm.Leg(before, last, continues=before > 0)
      for before, last in zip(bounds, bounds[1:], strict=False)
    )

  def _checks(self, total_rounds: int) -> tuple[int, ...]:
    """Returns the rounds after which it is looked whether to switch."""
    if self.phase_plan == 'half_split':
      raise SettingsError(
        'switch', AUTO, 'goes with --phase_plan=switch only: halves have their rounds'
      )
    if self.resample_rounds:
      raise SettingsError(
        'resample_rounds',
        self.resample_rounds,
        f'--switch={AUTO} finds the round itself; give one of the two',
      )
    every = self.switch_check_rounds or max(1, total_rounds // _NUM_CHECKS)
    checks = tuple(range(every, total_rounds, every))
    if len(checks) < 2:
      raise SettingsError(
        'switch_check_rounds',
        every,
        f'two checks at least must fit before the last of --total_rounds={total_rounds}',
      )
    return checks


@dataclasses.dataclass(frozen=True)
class PaperDeploymentSettings(Settings):
  """The deployment of the sub-word sampling paper, and its epsilon."""

  target_epsilon: float | None = setting(
    2.0,
    'Epsilon of the whole run. Alone, it calibrates the noise; with '
    '--noise_multiplier, the run stops before the round that would exceed it.',
    above=0,
  )
  accounted_population: int | None = setting(
    10_000_000, 'Users of the deployment that is accounted for.', low=1
  )
  accounted_cohort: int | None = setting(
    20_000,
    'Users per round of the deployment that is accounted for; noise is scaled by '
    'simulated over accounted cohort.',
    low=1,
  )


@dataclasses.dataclass(frozen=True)
class PaperPrivacySettings(
  PaperDeploymentSettings, central_settings.CentralPrivacySettings
):
  """The privacy of the sub-word sampling paper, accounted for its deployment."""


@dataclasses.dataclass(frozen=True)
class PaperFtrlSettings(PaperDeploymentSettings, ftrl_settings.FtrlPrivacySettings):
  """Correlated noise in place of the paper's, accounted for the same deployment."""


@dataclasses.dataclass(frozen=True)
class PaperDistributedSettings(
  PaperDeploymentSettings, distributed_settings.DistributedPrivacySettings
):
  """Noise of the devices in place of the paper's, for the same deployment."""


# The rounds of one tokenizer are DP-FedAvg. What happens between them, sampling,
# training a tokenizer and remapping the model, is post-processing of a private model:
# `training.resampling` and `tokenizer_change`. Reference: Bagdasaryan et al., Training a
# Tokenizer for Free with Private Federated Learning (2022).
build_subword_resample = dp_fed_avg.build_dp_fed_avg

ALGORITHM = algorithm.Algorithm(
  'subword_resample',
  'DP-FedAvg that learns a sub-word tokenizer by sampling the language model',
  SubwordResampleSettings,
  build_subword_resample,
  privacy=PaperPrivacySettings,
  mechanisms={'dp_ftrl': PaperFtrlSettings, 'distributed': PaperDistributedSettings},
  kinds=(algorithm.LANGUAGE_MODEL,),
)
