"""What a caller gives as objects in the place of what flags name, and its fingerprints.

config.json cannot hold a model or an aggregator. It has a hash of each, so that a run is
resumed with the same objects, or refused as it is with other settings.
"""

import dataclasses
import functools
import hashlib
import re
from typing import TYPE_CHECKING, Any

from tff_textpriv import settings as settings_lib

if TYPE_CHECKING:
  import tensorflow as tf
  import tensorflow_federated as tff


@dataclasses.dataclass(frozen=True, repr=False)
class OwnParts:
  """The objects.

  Attributes:
    model: A Keras model in the place of the task's.
    aggregator: A TFF aggregation factory in the place of the algorithm's mean.
  """

  model: 'tf.keras.Model | None' = None
  aggregator: 'tff.aggregators.WeightedAggregationFactory | None' = None

  @functools.cached_property
  def fingerprints(self) -> dict[str, str]:
    """Hashes of the objects that there are, by their roles.

    Raises:
      SettingsError: If one is something else.
    """
    made = {}
    if self.model is not None:
      import tensorflow as tf

      _check('model', self.model, tf.keras.Model)
      made['model'] = _hash(
        _without_counters(self.model.to_json()),
        *(weight.tobytes() for weight in self.model.get_weights()),
      )
    if self.aggregator is not None:
      made['aggregator'] = _hash(*_computations(self.aggregator))
    return made


NOTHING = OwnParts()


def _computations(factory: Any) -> list[str]:
  """Writes what a factory does, to updates of one small type, as lines in any order."""
  import numpy as np
  import tensorflow_federated as tff
  from google.protobuf import text_format

  kinds = tff.aggregators
  _check(
    'aggregator',
    factory,
    kinds.WeightedAggregationFactory,
    kinds.UnweightedAggregationFactory,
  )
  types = [tff.to_type([(np.float32, [3])]), tff.TensorType(np.float32)]
  if isinstance(factory, kinds.UnweightedAggregationFactory):
    types.pop()
  process = factory.create(*types)
  return sorted(
    line
    for computation in (process.initialize, process.next)
    for line in _without_counters(
      text_format.MessageToString(tff.framework.serialize_computation(computation))
    ).splitlines()
  )


def _check(name: str, part: Any, *kinds: type) -> None:
  if not isinstance(part, kinds):
    expected = ' or '.join(kind.__name__ for kind in kinds)
    raise settings_lib.SettingsError(
      name, None, f'must be an object of {expected}, and no {type(part).__name__}'
    )


def _without_counters(text: str) -> str:
  """Leaves out the numbers of names: they count what a process has made before."""
  return re.sub(r'_\d+"', '"', text)


def _hash(*parts: str | bytes) -> str:
  digest = hashlib.sha256()
  for part in parts:
    content = part.encode() if isinstance(part, str) else part
    digest.update(b'%d:' % len(content))
    digest.update(content)
  return digest.hexdigest()[:16]
