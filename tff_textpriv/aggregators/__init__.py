"""TFF aggregation factories: each is usable in TFF's own builders.

`DpMeanFactory`, `FtrlMeanFactory`, `DistributedMeanFactory`, `BitMeanFactory`,
`UnweightedBitMeanFactory`, `PrivUnitMeanFactory`, `SqkrMeanFactory`, `AttentiveFactory`
and `CountMeanSketchFactory` are the methods' own; `SoundMeanFactory` is TFF's weighted
mean, or another one, of the clients whose updates are sound; `GeometricMedianFactory` and
`SingleUpdatesFactory` bear faulty clients. `of_mechanism` finds the one of a mechanism.
"""

from tff_textpriv.aggregators.attentive import AttentiveFactory
from tff_textpriv.aggregators.bit_randomized_response import (
  BitMeanFactory,
  UnweightedBitMeanFactory,
)
from tff_textpriv.aggregators.count_mean_sketch import CountMeanSketchFactory
from tff_textpriv.aggregators.distributed_mean import DistributedMeanFactory
from tff_textpriv.aggregators.dp_mean import DpMeanFactory
from tff_textpriv.aggregators.ftrl_mean import FtrlMeanFactory
from tff_textpriv.aggregators.geometric_median import GeometricMedianFactory
from tff_textpriv.aggregators.priv_unit import PrivUnitMeanFactory
from tff_textpriv.aggregators.single_updates import SingleUpdatesFactory
from tff_textpriv.aggregators.sound_updates import SoundMeanFactory
from tff_textpriv.aggregators.sqkr import SqkrMeanFactory

__all__ = [
  'AttentiveFactory',
  'BitMeanFactory',
  'CountMeanSketchFactory',
  'DistributedMeanFactory',
  'DpMeanFactory',
  'FtrlMeanFactory',
  'GeometricMedianFactory',
  'PrivUnitMeanFactory',
  'SingleUpdatesFactory',
  'SoundMeanFactory',
  'SqkrMeanFactory',
  'UnweightedBitMeanFactory',
]
