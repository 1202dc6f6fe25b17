"""The sizes of the language models that have a name.

Plain numbers: settings list the names without importing TensorFlow. Presets of one
size have about the same number of parameters, LSTM or transformer; `paper` is 14M at
10,000 tokens, tied or not. The GRUs have the widths of Jiang et al. (2020).
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class RecurrentSize:
  """A cell (`lstm`, `gru`), the depth and, tied and untied, (embedding, hidden) widths."""

  cell: str
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


SIZES: dict[str, RecurrentSize | TransformerSize] = {
  'lstm_tiny': RecurrentSize('lstm', 1, tied=(64, 128), untied=(64, 128)),
  'lstm_small': RecurrentSize('lstm', 1, tied=(96, 670), untied=(96, 670)),
  'lstm_paper': RecurrentSize('lstm', 3, tied=(584, 584), untied=(448, 448)),
  'gru_tiny': RecurrentSize('gru', 1, tied=(128, 128), untied=(128, 128)),
  'gru_small': RecurrentSize('gru', 1, tied=(300, 300), untied=(300, 300)),
  'gru_medium': RecurrentSize('gru', 1, tied=(650, 650), untied=(650, 650)),
  'gru_large': RecurrentSize('gru', 1, tied=(1500, 1500), untied=(1500, 1500)),
  'transformer_tiny': TransformerSize(2, 4, tied=(64, 256), untied=(64, 256)),
  'transformer_small': TransformerSize(4, 5, tied=(160, 704), untied=(160, 704)),
  'transformer_paper': TransformerSize(6, 8, tied=(384, 1440), untied=(320, 1280)),
}

PRESETS = tuple(SIZES)
