"""What an export leaves: a folder with the model, its privacy card and a README."""

import json
import pathlib
import shutil
from collections.abc import Callable

import tensorflow as tf

from tff_textpriv import files, run_folder
from tff_textpriv.export import hugging_face, lite, pages, runs, tokenizer_files
from tff_textpriv.models import usage as usage_lib

_TOKENIZER = 'tokenizer.model'


def write(
  run: runs.FinishedRun,
  format_name: str,
  output: pathlib.Path,
  *,
  number: int,
  quantize: bool,
) -> list[str]:
  """Writes the folder of an export, in the place of an earlier one.

  Args:
    run: The run.
    format_name: `keras`, `saved_model`, `tflite`, `hf` or `tokenizer`.
    output: The folder.
    number: How many words a saved language model suggests.
    quantize: Whether the weights of a TensorFlow Lite model are bytes.

  Returns:
    Lines that say what was written.

  Raises:
    ExportError: If the model cannot be exported so, or there is something else in the
      folder.
  """
  _check_output(output)
  write_model: dict[str, Callable[[pathlib.Path], list[str]]] = {
    'keras': lambda folder: _write_keras(run, folder),
    'saved_model': lambda folder: _write_saved_model(run, folder, number),
    'tflite': lambda folder: _write_lite(run, folder, quantize=quantize),
    'hf': lambda folder: _write_hugging_face(run, folder),
    'tokenizer': lambda folder: _write_tokenizer(run, folder),
  }
  # Beside its place until it is complete.
  building = output.with_name(f'.{output.name}.part')
  shutil.rmtree(building, ignore_errors=True)
  building.mkdir(parents=True)
  try:
    lines = write_model[format_name](building)
    for card in (run_folder.CARD_PAGE, run_folder.CARD):
      shutil.copy(run.file(card), building)
    page = pages.readme(run, format_name)
    files.write_atomically(building / pages.FILE, page)
    shutil.rmtree(output, ignore_errors=True)
    building.rename(output)
  finally:
    shutil.rmtree(building, ignore_errors=True)
  return [f'written: {output}/ ({_size(output)})', *lines]


def _check_output(output: pathlib.Path) -> None:
  """Refuses to replace what is not an export."""
  page = output / pages.FILE
  if not output.exists() or (
    page.exists() and page.read_text().startswith(pages.TITLE)
  ):
    return
  if not output.is_dir() or any(output.iterdir()):
    raise runs.ExportError(
      f'--output={output}: there is something else in it; name a folder that is new, '
      'empty or holds an earlier export'
    )


def _write_keras(run: runs.FinishedRun, folder: pathlib.Path) -> list[str]:
  shutil.copy(run.file(run_folder.MODEL), folder)
  shutil.copy(run.file(usage_lib.FILE), folder)
  _copy_text_files(run, folder)
  return []


def _write_saved_model(
  run: runs.FinishedRun, folder: pathlib.Path, number: int
) -> list[str]:
  model = run.text_model(number)
  names = [
    name
    for name in ('suggest', 'complete', 'score', 'classify')
    if hasattr(model, name)
  ]
  signatures = {name: getattr(model, name) for name in names}
  tf.saved_model.save(
    model, str(folder), {'serving_default': signatures[names[0]], **signatures}
  )
  return [f'functions: {", ".join(names)}']


def _write_lite(
  run: runs.FinishedRun, folder: pathlib.Path, *, quantize: bool
) -> list[str]:
  made = lite.convert(run, quantize=quantize)
  files.write_atomically(folder / 'model.tflite', made.content)
  guide = json.dumps(made.guide, indent=2, ensure_ascii=False) + '\n'
  files.write_atomically(folder / 'encoding.json', guide)
  _copy_text_files(run, folder)
  lines = [f'model.tflite has {len(made.content):,} bytes']
  if quantize:
    whole = len(lite.convert(run, quantize=False).content)
    lines[0] += f', {len(made.content) / whole:.0%} of the {whole:,} without --quantize'
  return lines


def _write_hugging_face(run: runs.FinishedRun, folder: pathlib.Path) -> list[str]:
  for name, content in hugging_face.make_files(run).items():
    files.write_atomically(folder / name, content)
  return []


def _write_tokenizer(run: runs.FinishedRun, folder: pathlib.Path) -> list[str]:
  made = tokenizer_files.make(run)
  files.write_atomically(folder / tokenizer_files.FILE, made.content)
  _copy_text_files(run, folder)
  return [made.checked]


def _copy_text_files(run: runs.FinishedRun, folder: pathlib.Path) -> None:
  """Copies what turns text into numbers."""
  if isinstance(run.usage, usage_lib.LanguageModelUsage):
    shutil.copy(run.file(run.usage.tokenizer), folder / _TOKENIZER)
    return
  encoding = run.usage.encoding
  if encoding.vocabulary is not None:
    shutil.copy(run.file(encoding.vocabulary), folder)
  if encoding.vectors is not None:
    run.encoder()  # The file may be anywhere: nothing but word vectors is copied.
    shutil.copy(run.folder / encoding.vectors, folder)
  if encoding.whitening is not None:
    shutil.copy(run.file(encoding.whitening), folder)


def _size(folder: pathlib.Path) -> str:
  size = sum(file.stat().st_size for file in folder.rglob('*') if file.is_file())
  return f'{size / 1e6:.1f} MB'
