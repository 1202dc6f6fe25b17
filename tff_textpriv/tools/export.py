"""Exports the model of a run for use without this package.

python -m tff_textpriv.tools.export runs/stackoverflow_fed_avg --format=saved_model
"""

import dataclasses
import pathlib

from tff_textpriv import flags
from tff_textpriv.settings import REQUIRED, Settings, SettingsError, setting

DESCRIPTION = (
  'Writes the model of a finished run as a folder that is used without tff_textpriv and '
  'TensorFlow Federated, with the privacy card and a README with an example beside it.'
)
FORMATS = ('saved_model', 'keras', 'tflite', 'hf', 'tokenizer')
_DEFAULT_SUGGESTIONS = 5


@dataclasses.dataclass(frozen=True)
class ExportSettings(Settings):
  """What to export, and how."""

  run: str = setting(REQUIRED, 'The folder of a finished run.', positional=True)
  format: str = setting(
    'saved_model',
    'saved_model reads raw strings and returns next words or labels; keras and tflite '
    'read numbers, and bring what makes these of text; hf is a Hugging Face folder, of '
    'the models encoder_* only; tokenizer is a sub-word tokenizer without a model, as '
    'Hugging Face’s tokenizer.json and as a SentencePiece model.',
    choices=FORMATS,
  )
  output: str | None = setting(
    None, 'The folder to write; by default export/FORMAT in that of the run.'
  )
  suggestions: int | None = setting(
    None,
    'With saved_model of a language model, how many words are suggested; '
    f'{_DEFAULT_SUGGESTIONS} if not set.',
    low=1,
    high=100,
  )
  quantize: bool = setting(
    False, 'With tflite, keep weights as bytes (dynamic range quantization).'
  )

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.quantize and self.format != 'tflite':
      raise SettingsError('quantize', True, 'goes with --format=tflite only')
    if self.suggestions is not None and self.format != 'saved_model':
      raise SettingsError(
        'suggestions', self.suggestions, 'goes with --format=saved_model only'
      )


def main(settings: ExportSettings) -> int:
  """Writes the export and says how to use it; returns 0."""
  # Help and mistakes are answered without TensorFlow.
  import tensorflow as tf

  from tff_textpriv.export import folders, pages, runs

  tf.get_logger().setLevel('ERROR')
  run = runs.read(settings.run)
  output = pathlib.Path(settings.output or run.folder / 'export' / settings.format)
  lines = folders.write(
    run,
    settings.format,
    output,
    number=settings.suggestions or _DEFAULT_SUGGESTIONS,
    quantize=settings.quantize,
  )
  print('\n'.join(lines))
  example = pages.example(run, settings.format, output)
  print(f'use it like this (more in {output}/README.md):\n')
  print('\n'.join(f'  {line}' for line in example.splitlines()))
  return 0


if __name__ == '__main__':
  flags.run(main, ExportSettings, DESCRIPTION)
