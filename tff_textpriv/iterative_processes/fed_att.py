"""Attentive aggregation: clients train and randomize, the server attends to them."""

import dataclasses
import math
from typing import Self

from tff_textpriv.iterative_processes import algorithm, common_settings
from tff_textpriv.privacy import central_settings, local_gaussian, smoothed_sums
from tff_textpriv.privacy.mechanism import Mechanism
from tff_textpriv.settings import SettingsError, setting


@dataclasses.dataclass(frozen=True)
class FedAttSettings(
  common_settings.FullStepSettings, common_settings.LocalTrainingSettings
):
  """Attentive aggregation."""

  attention: str = setting(
    'exact',
    'How clients are weighted: by the gradient of the attentive loss (exact), by the '
    'inverse of their distance without its pole (smoothed), as the algorithm is printed '
    '(paper), by the gradient of the loss that it starts from (loss), by a softmax of '
    'distances, layer by layer (layerwise), or all alike (uniform).',
    choices=('exact', 'smoothed', 'paper', 'loss', 'layerwise', 'uniform'),
  )
  attention_smoothing: float = setting(
    1.0,
    'With --attention=smoothed, the distance at which a client counts half, over the '
    'usual one, squared (lambda). The larger, the more alike clients are.',
    above=0,
    below=math.inf,
  )
  attention_distance: str = setting(
    'by_work',
    'With --attention=smoothed, how far away a client is: how far it went per example '
    '(by_work), how far it went (from_server), or how far it is from the geometric median '
    'of all (from_centre), for which clients answer more than once per round.',
    choices=('by_work', 'from_server', 'from_centre'),
  )
  attention_temperature: float = setting(
    1.0,
    'With --attention=loss, the temperature of its softmax. The higher, the more alike '
    'clients are.',
    above=0,
    below=math.inf,
  )
  attention_granularity: str | None = setting(
    None,
    'What is attended to: the model as a whole, or each layer (weight tensor) by '
    'itself; by default the model, and layers with --attention=layerwise.',
    choices=('model', 'layer'),
  )
  attention_step: str = setting(
    'relative',
    'With --attention=exact, paper or loss, the unit of --server_learning_rate: the '
    'gradient itself (gradient), or the gradient over the sum of 2 / squared distance '
    '(loss: over 2), so that a step of 1 is a weighted mean of the updates, or with paper '
    'their sum (relative).',
    choices=('relative', 'gradient'),
  )
  server_learning_rate: float = setting(
    1.0, 'Step size of the server (epsilon of Eq. 7).', above=0
  )

  @property
  def granularity(self) -> str:
    """What is attended to, the default filled in."""
    default = 'layer' if self.attention == 'layerwise' else 'model'
    return self.attention_granularity or default

  def for_audit(self) -> Self:
    """Returns settings under which clients count alike: the mean of one is itself."""
    return dataclasses.replace(self, attention='uniform')


def build_fed_att(
  model: algorithm.Model, settings: FedAttSettings, mechanism: Mechanism
) -> algorithm.Process:
  """Builds attentive aggregation.

  With v_k = w - w_k, d_k = |v_k|^2 and attention a = softmax(w . w_k / sqrt(n)) over the
  clients, the server steps along the gradient of sum_k (log a_k + log d_k), which weighs
  near clients more; `--attention` offers this, the rule as printed, and others
  (`aggregators.attention_rules` has the formulas). Before they are sent, updates get the
  noise of the mechanism.

  With `--attention=smoothed --mechanism=central` clients add no noise; the server adds it
  to the two sums of which that rule is the quotient (`smoothed_mean`).

  Args:
    model: What is trained; carries the initial weights.
    settings: Both optimizers, the rule, its granularity and its step.
    mechanism: The noise that clients add to their updates, or that of the server.

  Returns:
    A learning process. Clients read `batches` and a `seed`, int64 [2].

  Example:
    >>> mechanism = LocalGaussianSettings(clip_norm=1.0, noise_magnitude=0.01).mechanism(
    ...   Deployment('fixed', population=100, cohort=10, rounds=50))
    >>> process = build_fed_att(model, FedAttSettings(attention='layerwise'), mechanism)

  Reference: Jiang et al., Decentralized Knowledge Acquisition for Mobile Internet
  Applications (2020).
  """
  # Only now is TFF needed: flags are read before.
  import tensorflow_federated as tff

  from tff_textpriv.aggregators import attentive, of_mechanism
  from tff_textpriv.iterative_processes import (
    attentive_step,
    averaging,
    optimizers,
    seeded_client_work,
    server_step,
    smoothed_mean,
  )

  if not mechanism.randomizes_on_device:
    of_mechanism.mean(mechanism, by_examples=False)  # One that nobody knows is refused.
    _check_bounded(settings)
    # All alike, two sums are one: what is audited.
    alike = settings.attention == 'uniform'
    return (averaging if alike else smoothed_mean).build(model, settings, mechanism)
  initial_weights = seeded_client_work.initial_weights(model)
  weights_type = initial_weights.type_signature.result
  work = attentive_step.client_work(model, settings, mechanism)
  result_type = work.next.type_signature.result.result.member
  aggregator = attentive.AttentiveFactory(
    settings.attention,
    settings.granularity,
    settings.attention_step,
    temperature=settings.attention_temperature,
    smoothing=settings.attention_smoothing,
    distance=settings.attention_distance,
  ).create(result_type.update, result_type.update_weight)
  return tff.learning.templates.compose_learning_process(
    initial_weights,
    tff.learning.templates.build_broadcast_process(weights_type),
    work,
    aggregator,
    server_step.finalizer(
      optimizers.server_optimizer(settings),
      weights_type,
      aggregator.next.type_signature.result.result.member,
      attentive_step.whole_gradient,
    ),
  )


def _check_bounded(settings: FedAttSettings) -> None:
  """Refuses rules of which a user can move the result by any amount."""
  if settings.attention not in ('smoothed', 'uniform'):
    raise SettingsError(
      'attention',
      settings.attention,
      f'{_UNBOUNDED}; --mechanism=central goes with --attention=smoothed',
    )
  for name in ('attention_granularity', 'attention_smoothing', 'attention_distance'):
    value = getattr(settings, name)
    if value not in (None, FedAttSettings.__dataclass_fields__[name].default):
      raise SettingsError(
        name,
        value,
        'under --mechanism=central the clip norm says at which distance from the server a '
        'whole model counts half; leave the flag out',
      )


_UNBOUNDED = (
  'attention lets one user change the weights of all others, so that the clipped sum’s '
  'bounded sensitivity, on which central differential privacy rests, is lost'
)

ALGORITHM = algorithm.Algorithm(
  'fed_att',
  'attentive aggregation of the clients’ models',
  FedAttSettings,
  build_fed_att,
  privacy=local_gaussian.LocalGaussianSettings,
  mechanisms={'central': smoothed_sums.SmoothedSumsSettings},
  refuses={
    central_settings.CentralPrivacySettings: (
      f'{_UNBOUNDED}; use --clip_norm and --noise_magnitude, the noise of which users add '
      'themselves, or --attention=smoothed with --mechanism=central, whose sums are bounded'
    )
  },
)
