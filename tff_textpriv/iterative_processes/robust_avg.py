"""Robust averaging: clients train, the server takes an average that few can carry away."""

import dataclasses
import math

from tff_textpriv.iterative_processes import algorithm, common_settings, fed_avg
from tff_textpriv.privacy.mechanism import Mechanism
from tff_textpriv.settings import SettingsError, setting

RULES = (
  'zeroing_and_clipping',
  'norm_bound',
  'geometric_median',
  'trimmed_mean',
  'krum',
  'multi_krum',
)
# What these make of updates they make of each by itself, and all alike.
_OF_SINGLE_UPDATES = ('trimmed_mean', 'krum', 'multi_krum')


@dataclasses.dataclass(frozen=True)
class RobustAvgSettings(common_settings.FullStepSettings, fed_avg.FedAvgSettings):
  """Robust federated averaging."""

  robust_rule: str = setting(
    'geometric_median',
    'What takes the place of the mean: TFF’s robust aggregator, a mean without the '
    'longest updates and with the others clipped, both by quantiles '
    '(zeroing_and_clipping); a mean of updates clipped to --norm_bound (norm_bound); the '
    'point with the least sum of distances (geometric_median); the mean of each '
    'coordinate without its extremes (trimmed_mean); the update that stands nearest to '
    'others (krum), or the mean of those that do (multi_krum). The last three need every '
    'client’s update by itself, and are for small cohorts.',
    choices=RULES,
  )
  norm_bound: float = setting(
    1.0,
    'With --robust_rule=norm_bound, the L2 norm to which updates are clipped.',
    above=0,
    below=math.inf,
  )
  faulty_share: float = setting(
    0.2,
    'With trimmed_mean, krum and multi_krum, the share of clients that may be faulty.',
    low=0,
    below=0.5,
  )
  median_iterations: int = setting(
    4,
    'With geometric_median, how often clients answer in a round after the first time.',
    low=1,
    high=100,
  )
  client_weighting: str = setting(
    'uniform',
    'How clients count: all alike, or by their number of examples. The rules that need '
    'single updates take clients alike only.',
    choices=('uniform', 'examples'),
  )

  def __post_init__(self) -> None:
    """Checks what fields say together; see the base class."""
    super().__post_init__()
    if self.robust_rule in _OF_SINGLE_UPDATES and self.weighs_by_examples:
      raise SettingsError(
        'client_weighting',
        self.client_weighting,
        f'--robust_rule={self.robust_rule} counts all clients alike; use '
        '--client_weighting=uniform',
      )


def build_robust_avg(
  model: algorithm.Model, settings: RobustAvgSettings, mechanism: Mechanism
) -> algorithm.Process:
  """Builds federated averaging with a robust average.

  Everything but the average is `build_fed_avg`. With updates v_k = w - w_k of m clients
  and a share of f / m that may be faulty, the server steps along

    zeroing_and_clipping  sum_k v_k min(1, C / |v_k|) / m, where C follows the 0.8-quantile
                          of the norms, and v_k = 0 if |v_k| is above about twice the
                          0.98-quantile (TFF's `robust_aggregator`)
    norm_bound            sum_k v_k min(1, B / |v_k|) / m
    geometric_median      argmin_z sum_k |v_k - z|, by Weiszfeld's algorithm from the mean
    trimmed_mean          in each coordinate, the mean without the f largest and f smallest
    krum, multi_krum      the v_k, or the mean of the m - f of them, with the least sum of
                          squared distances to its m - f - 2 nearest

  Args:
    model: What is trained; carries the initial weights.
    settings: Those of federated averaging, and the rule with its numbers.
    mechanism: `NoMechanism`: none of the rules promises anything.

  Returns:
    A learning process: `initialize`, `next` and `get_model_weights`.

  Example:
    >>> build_robust_avg(model, RobustAvgSettings(robust_rule='krum'), NoMechanism('none'))

  References: Pillutla et al., Robust Aggregation for Federated Learning (2022); Yin et
  al., Byzantine-Robust Distributed Learning (2018); Blanchard et al., Machine Learning
  with Adversaries (2017).
  """
  from tff_textpriv.aggregators import robust_means, sound_updates
  from tff_textpriv.iterative_processes import averaging

  rule = robust_means.rule(
    settings.robust_rule,
    norm_bound=settings.norm_bound,
    faulty_share=settings.faulty_share,
    median_iterations=settings.median_iterations,
  )
  return averaging.build(
    model, settings, mechanism, mean=sound_updates.SoundMeanFactory(rule)
  )


ALGORITHM = algorithm.Algorithm(
  'robust_avg',
  'federated averaging that bears faulty clients',
  RobustAvgSettings,
  build_robust_avg,
  averages_its_way=True,
)
