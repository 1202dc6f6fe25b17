"""The sizes of the language models that have a name.

Plain numbers: settings list the names without importing TensorFlow. Presets of one
size have about the same number of parameters, whatever the architecture; `paper` is
14M at 10,000 tokens, tied or not.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class LstmSize:
  """An LSTM's depth and, tied and untied, its (embedding, hidden) widths."""

  num_layers: int
  tied: tuple[int, int]
  untied: tuple[int, int]


@dataclasses.dataclass(frozen=True)
class TransformerSize:
  """A transformer's depth and heads, and its (model, feed-forward) widths."""

  num_layers: int
  num_heads: int
  tied: tuple[int, int]
  untied: tuple[int, int]


SIZES: dict[str, LstmSize | TransformerSize] = {
  'lstm_tiny': LstmSize(1, tied=(64, 128), untied=(64, 128)),
  'lstm_small': LstmSize(1, tied=(96, 670), untied=(96, 670)),
  'lstm_paper': LstmSize(3, tied=(584, 584), untied=(448, 448)),
  'transformer_tiny': TransformerSize(2, 4, tied=(64, 256), untied=(64, 256)),
  'transformer_small': TransformerSize(4, 5, tied=(160, 704), untied=(160, 704)),
  'transformer_paper': TransformerSize(6, 8, tied=(384, 1440), untied=(320, 1280)),
}

PRESETS = tuple(SIZES)
