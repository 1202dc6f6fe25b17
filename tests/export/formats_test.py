"""Exported folders: loaded without this package, equal to the model of the run."""

import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tff_textpriv.export import folders, lite, runs
from tff_textpriv.tasks import agnews, imdb, movielens, stackoverflow

_LANGUAGE_MODEL = (
  '--algo=fed_avg', '--num_users=20', '--max_eval_users=3', '--vocab_size=350',
)  # fmt: skip
_CENTRAL = ('--algo=central', '--max_train_examples=200')
_HASHED = (*_CENTRAL, '--hash_buckets=300')
# Python that finds neither TFF nor this package.
_ALONE = """
import sys

class Refuse:
  def find_spec(self, name, path=None, target=None):
    if name.split('.')[0] in ('tensorflow_federated', 'tff_textpriv'):
      raise ImportError(f'{name} is not installed')

sys.meta_path.insert(0, Refuse())
"""


def _write(run, format_name, output, *, number=3, quantize=False):
  return folders.write(run, format_name, output, number=number, quantize=quantize)


def _run_alone(script: str, folder: pathlib.Path) -> str:
  done = subprocess.run(
    [sys.executable, '-c', _ALONE + script],
    cwd=folder,
    env={'TF_CPP_MIN_LOG_LEVEL': '3', 'PATH': ''},
    capture_output=True,
    text=True,
  )
  assert done.returncode == 0, done.stderr
  return done.stdout


def _example(folder: pathlib.Path) -> str:
  """The two lines of an export's README."""
  page = (folder / 'README.md').read_text()
  lines = page.split('```python\n')[1].split('\n```')[0]
  assert len(lines.splitlines()) == 2
  return lines


def test_saved_models_are_used_in_two_lines_without_this_package(make_run, tmp_path):
  suggesting = make_run(stackoverflow.TASK, *_LANGUAGE_MODEL).run
  classifying = make_run(movielens.TASK, *_HASHED).run
  _write(suggesting, 'saved_model', tmp_path / 'suggesting')
  _write(classifying, 'saved_model', tmp_path / 'classifying')
  script = '\n'.join(
    [
      'import os; os.chdir("suggesting")',
      _example(tmp_path / 'suggesting'),
      'os.chdir("../classifying")',
      _example(tmp_path / 'classifying'),
      'os.chdir("..")',
      'loaded = tf.saved_model.load("suggesting")',
      'print(loaded.signatures["complete"](texts=tf.constant(["how do i"])))',
      'print("score", loaded.score(tf.constant(["how do i"]))["perplexity"].numpy())',
      'for name in ("tensorflow_federated", "tff_textpriv"):',
      '  try: __import__(name)',
      '  except ImportError: print("no", name)',
    ]
  )
  said = _run_alone(script, tmp_path)
  model = suggesting.text_model(3)
  for word in model.suggest(['how do i'])['words'][0].numpy():
    assert repr(word) in said
  (perplexity,) = model.score(['how do i'])['perplexity'].numpy()
  found = re.search(r'score \[(.*)\]', said)
  assert float(found[1]) == pytest.approx(perplexity, rel=1e-3)
  assert "b'below 4', b'4 or 5'" in said
  assert 'no tensorflow_federated\nno tff_textpriv' in said


def test_every_export_brings_its_privacy_card_and_says_whose_words_it_holds(
  make_run, tmp_path
):
  expected = {
    'imdb': ('no vocabulary', make_run(imdb.TASK, *_HASHED).run),
    'agnews': ('words that users wrote', make_run(agnews.TASK, *_CENTRAL).run),
    'posts': ('from public text', make_run(stackoverflow.TASK, *_LANGUAGE_MODEL).run),
  }
  for name, (words, run) in expected.items():
    _write(run, 'keras', tmp_path / name)
    page = (tmp_path / name / 'README.md').read_text()
    assert words in page and 'No formal guarantee' in page
    for file in ('privacy_card.md', 'privacy_card.json', 'model.keras', 'model.json'):
      ours, theirs = tmp_path / name / file, run.folder / file
      assert ours.read_bytes() == theirs.read_bytes()
  assert (tmp_path / 'agnews/vocabulary.txt').exists()
  assert (tmp_path / 'posts/tokenizer.model').exists()


def test_keras_models_load_in_two_lines(make_run, tmp_path):
  _write(make_run(agnews.TASK, *_CENTRAL).run, 'keras', tmp_path / 'agnews')
  script = f'{_example(tmp_path / "agnews")}\nprint(model.output_shape)'
  assert _run_alone(script, tmp_path / 'agnews') == '(None, 4)\n'


_LITE = {
  'lstm': (stackoverflow.TASK, _LANGUAGE_MODEL),
  'gru': (stackoverflow.TASK, (*_LANGUAGE_MODEL, '--model=gru_tiny')),
  'transformer': (stackoverflow.TASK, (*_LANGUAGE_MODEL, '--model=transformer_tiny')),
  'hash': (imdb.TASK, _HASHED),
  'hash with LSTM': (imdb.TASK, (*_HASHED, '--model=lstm_network')),
  'words': (
    imdb.TASK,
    (*_HASHED, '--representation=hash_words', '--max_words=7', '--model=lstm_network'),
  ),
  'side features': (movielens.TASK, _HASHED),
  'bilstm': (agnews.TASK, (*_CENTRAL, '--max_words=9')),
  'encoder': (agnews.TASK, (*_CENTRAL, '--max_words=9', '--model=encoder_tiny')),
}


_QUICK = ('lstm', 'side features', 'encoder')


@pytest.mark.parametrize(
  'kind',
  [
    pytest.param(kind, marks=() if kind in _QUICK else pytest.mark.slow)
    for kind in _LITE
  ],
)
def test_lite_models_equal_keras(make_run, kind):
  task, given = _LITE[kind]
  run = make_run(task, *given).run
  made = lite.convert(run, quantize=False)
  interpreter = tf.lite.Interpreter(model_content=made.content)
  runner = interpreter.get_signature_runner()
  rng = np.random.default_rng(0)
  assert set(made.guide['inputs']) == set(runner.get_input_details())
  ids_below = run.tokenizer.size if 'tokens' in made.guide['inputs'] else None
  # The second text must not be read as if it went on with the first.
  for length in (1, 5):
    inputs = {}
    for name, details in runner.get_input_details().items():
      shape = details['shape']
      if details['dtype'] == np.float32:
        inputs[name] = rng.integers(2, size=shape).astype(np.float32)
      else:
        below = ids_below or run.encoder().num_ids
        inputs[name] = np.full(shape, 0 if ids_below else below, np.int32)
        inputs[name][:, :length] = rng.integers(1, below, (1, length))
    (found,) = runner(**inputs).values()
    keras_inputs = {
      'tokens': lambda value: value,
      'ids': lambda value: value,
      'counts': lambda value: np.flatnonzero(value)[None].astype(np.int32),
      'dense': lambda value: value,
    }
    feed = {
      'ids' if name == 'counts' else name: keras_inputs[name](value)
      for name, value in inputs.items()
    }
    expected = run.keras_model(feed.get('tokens', feed))
    # Rounding adds up over the hundred steps of a language model's window.
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def test_quantized_weights_are_smaller_and_nearly_right(make_run, tmp_path):
  run = make_run(stackoverflow.TASK, *_LANGUAGE_MODEL).run
  lines = _write(run, 'tflite', tmp_path / 'lite', quantize=True)
  assert 'without --quantize' in lines[-1]
  (file,) = (tmp_path / 'lite').glob('*.tflite')
  small, whole = file.read_bytes(), lite.convert(run, quantize=False).content
  assert len(small) < 0.5 * len(whole)
  tokens = np.zeros((1, run.usage.max_length), np.int32)
  tokens[0, :3] = 2, 300, 301
  found, expected = (
    next(
      iter(
        tf.lite.Interpreter(model_content=made)
        .get_signature_runner()(tokens=tokens)
        .values()
      )
    )[0, 2]
    for made in (small, whole)
  )
  assert np.corrcoef(found, expected)[0, 1] > 0.99
  guide = json.loads((tmp_path / 'lite/encoding.json').read_text())
  assert guide['bos_id'] == 2 and 'SentencePiece' in guide['tokenizer']


def test_the_part_above_the_tables_is_exported_as_keras_only(make_run, tmp_path):
  run = make_run(agnews.TASK, '--algo=fede_vocab', '--max_train_examples=200').run
  for format_name in ('saved_model', 'tflite', 'hf'):
    with pytest.raises(runs.ExportError, match='--format=keras exports that part'):
      _write(run, format_name, tmp_path / format_name)
    assert not list(tmp_path.iterdir())
  _write(run, 'keras', tmp_path / 'keras')
  assert 'the part of the model above them' in (
    tmp_path / 'keras/README.md'
  ).read_text().replace('\n', ' ')


def test_only_an_earlier_export_is_replaced(make_run, tmp_path):
  run = make_run(imdb.TASK, *_HASHED).run
  output = tmp_path / 'export'
  _write(run, 'keras', output)
  (output / 'left over').touch()
  _write(run, 'saved_model', output)
  assert not (output / 'model.keras').exists() and not (output / 'left over').exists()
  (output / 'README.md').write_text('My notes')
  with pytest.raises(runs.ExportError, match='something else'):
    _write(run, 'keras', output)
  assert (output / 'saved_model.pb').exists()
