"""The tools `export` and `suggest`, on the folder of a run."""

import io
import os
import subprocess
import sys

import pytest

from tff_textpriv.export import runs
from tff_textpriv.settings import IncompatibleSettingsError, SettingsError
from tff_textpriv.tasks import imdb, movielens, stackoverflow
from tff_textpriv.tools import export, suggest

_LANGUAGE_MODEL = (
  '--algo=fed_avg', '--num_users=20', '--max_eval_users=3', '--vocab_size=350',
)  # fmt: skip
_HASHED = ('--algo=central', '--max_train_examples=200', '--hash_buckets=300')


@pytest.fixture
def posts(make_run):
  """A run of a language model."""
  return str(make_run(stackoverflow.TASK, *_LANGUAGE_MODEL).folder)


@pytest.fixture
def reviews(make_run):
  """A run of a classifier."""
  return str(make_run(imdb.TASK, *_HASHED).folder)


def test_an_export_goes_into_the_run_s_folder_and_says_how_to_use_it(posts, capsys):
  assert export.main(export.ExportSettings(posts)) == 0
  said = capsys.readouterr().out
  assert f'written: {posts}/export/saved_model/' in said
  assert 'functions: suggest, complete, score' in said
  assert f"model = tf.saved_model.load('{posts}/export/saved_model')" in said


def test_flags_of_another_format_are_refused():
  with pytest.raises(SettingsError, match='--quantize=true: goes with --format=tflite'):
    export.ExportSettings('run', quantize=True)
  with pytest.raises(SettingsError, match='--suggestions=3: goes with --format=saved'):
    export.ExportSettings('run', format='keras', suggestions=3)


def test_words_are_suggested_with_bars(posts, capsys):
  assert suggest.main(suggest.SuggestSettings(posts, 'how do i', top=3)) == 0
  lines = capsys.readouterr().out.splitlines()
  assert len(lines) == 3
  assert lines[0].endswith('%  ' + '█' * 30)


def test_classes_are_named_with_their_probabilities(reviews, capsys):
  assert suggest.main(suggest.SuggestSettings(reviews, 'a fine movie')) == 0
  lines = capsys.readouterr().out.splitlines()
  shares = [float(line.split()[1].rstrip('%')) for line in lines]
  assert {line.split()[0] for line in lines} == {'positive', 'negative'}
  assert sum(shares) == pytest.approx(100, abs=0.02) and shares[0] >= shares[1]


def test_lines_of_the_input_are_answered(posts, monkeypatch, capsys):
  monkeypatch.setattr(sys, 'stdin', io.StringIO('how do i\nhow do i \n'))
  assert suggest.main(suggest.SuggestSettings(posts, interactive=True, top=2)) == 0
  completed, followed = capsys.readouterr().out.splitlines()[1::2]
  assert all(word.startswith('i') for word in completed.split()[::2])
  suggest.main(suggest.SuggestSettings(posts, 'how do i', top=2))
  words = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
  assert followed.split()[::2] == words


def test_a_text_or_interactive_is_needed_and_side_features_cannot_be_typed(make_run):
  for given in ({}, {'text': 'a', 'interactive': True}):
    with pytest.raises(IncompatibleSettingsError, match='either a text'):
      suggest.SuggestSettings('run', **given)
  folder = str(make_run(movielens.TASK, *_HASHED).folder)
  with pytest.raises(runs.ExportError, match='side features'):
    suggest.main(suggest.SuggestSettings(folder, 'a text'))


def test_the_tool_does_not_wait_for_tff(posts):
  script = (
    'import sys; from tff_textpriv.tools import suggest;'
    f'suggest.main(suggest.SuggestSettings({posts!r}, "how do i"));'
    'sys.exit("tensorflow_federated" in sys.modules)'
  )
  subprocess.run([sys.executable, '-c', script], check=True)


def test_a_folder_without_a_run_is_one_sentence(tmp_path):
  done = subprocess.run(
    [sys.executable, '-m', 'tff_textpriv.tools.suggest', str(tmp_path), 'how'],
    capture_output=True,
    text=True,
    # TFF, which other tests import, asks TensorFlow for more remarks than users see.
    env={k: v for k, v in os.environ.items() if k != 'TF_CPP_MIN_LOG_LEVEL'},
  )
  assert done.returncode == 2
  assert done.stderr == (
    f'error: {tmp_path}: there is no run here (no config.json); name the folder of a '
    'run, such as runs/stackoverflow_fed_avg\n'
  )
