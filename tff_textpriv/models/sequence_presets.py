"""The sizes of classifiers of words in order that have a name.

Plain numbers: settings list the names without importing TensorFlow.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class BiLstmSize:
  """The widths of the embedding (without a file of vectors) and of each direction."""

  embedding_size: int
  units: int


@dataclasses.dataclass(frozen=True)
class EncoderSize:
  """An encoder's shape, and whether it is a `bert` or a `distilbert`."""

  width: int
  num_layers: int
  num_heads: int
  feed_forward_size: int
  max_positions: int = 512
  kind: str = 'distilbert'


BILSTMS = {
  'bilstm_tiny': BiLstmSize(32, 32),
  'bilstm_small': BiLstmSize(50, 64),
  'bilstm_paper': BiLstmSize(300, 300),
}
ENCODERS = {
  'encoder_tiny': EncoderSize(32, 2, 2, 64, max_positions=256),
  'encoder_small': EncoderSize(128, 4, 4, 512),
  'encoder_distilbert': EncoderSize(768, 6, 12, 3072),
  'encoder_bert': EncoderSize(768, 12, 12, 3072, kind='bert'),
}
# Its shape is that of `--checkpoint`.
ENCODER_CHECKPOINT = 'encoder_checkpoint'
MODELS = (*BILSTMS, *ENCODERS, ENCODER_CHECKPOINT)
