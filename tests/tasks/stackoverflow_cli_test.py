"""The whole command: what it writes, that it learns, and that nothing stops it."""

import csv
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
import tensorflow as tf

from tff_textpriv.datasets import clients, embedded
from tff_textpriv.datasets import stackoverflow as stackoverflow_format
from tff_textpriv.tasks import base, stackoverflow
from tff_textpriv.training import output

_MODULE = 'tff_textpriv.tasks.stackoverflow'
_ROUNDS = 8
_TINY = (
  '--num_users=30',
  '--clients_per_round=5',
  '--vocab_size=400',
  '--max_words_per_user=300',
  '--max_eval_users=5',
)
_PRIVATE = (
  '--algo=dp_fed_avg',
  '--noise_multiplier=0.7',
  f'--total_rounds={_ROUNDS}',
  '--rounds_per_eval=4',
  '--rounds_per_checkpoint=2',
  *_TINY,
)


def _where(folder: pathlib.Path) -> tuple[str, str, str]:
  return (
    f'--root_output_dir={folder.parent}',
    f'--experiment_name={folder.name}',
    f'--data_dir={folder.parent / "data"}',
  )


def _run(folder: pathlib.Path, *given: str) -> int:
  """Runs an experiment in this process."""
  experiment = base.parse(stackoverflow.TASK, [*given, *_where(folder)])
  return base.run(experiment)


def _rows(folder: pathlib.Path) -> list[dict[str, str]]:
  try:
    with open(folder / 'metrics.csv', newline='') as file:
      return list(csv.DictReader(file))
  except FileNotFoundError:
    return []


def _json(file: pathlib.Path):
  return json.loads(file.read_text())


@pytest.fixture(scope='module')
def root(tmp_path_factory) -> pathlib.Path:
  """All runs are beside each other, and share the cache of encoded text."""
  return tmp_path_factory.mktemp('runs')


@pytest.fixture(scope='module')
def undisturbed(root) -> pathlib.Path:
  assert _run(root / 'undisturbed', *_PRIVATE) == 0
  return root / 'undisturbed'


class _Command:
  """The real command in a process of its own, its output in a file."""

  def __init__(self, folder: pathlib.Path, *given: str):
    self._folder = folder
    self._log = folder.parent / f'{folder.name}.log'
    with open(self._log, 'ab') as log:
      self._process = subprocess.Popen(
        [sys.executable, '-m', _MODULE, *given, *_where(folder)],
        stdout=log,
        stderr=log,
        stdin=subprocess.DEVNULL,
        cwd=folder.parent,
      )

  @property
  def log(self) -> str:
    return self._log.read_text()

  def wait_for_round(self, round_number: int) -> None:
    """Waits until a round is in metrics.csv and the process still at work."""
    deadline = time.monotonic() + 240
    while not any(row['round'] == str(round_number) for row in _rows(self._folder)):
      assert self._process.poll() is None, self.log
      assert time.monotonic() < deadline, self.log
      time.sleep(0.01)

  def signal(self, number: int) -> int:
    """Sends a signal; returns the exit code once all its processes are gone."""
    workers = psutil.Process(self._process.pid).children(recursive=True)
    assert workers
    self._process.send_signal(number)
    code = self.wait()
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive
    return code

  def wait(self) -> int:
    try:
      return self._process.wait(240)
    finally:
      self._process.kill()


def _weights(folder: pathlib.Path) -> list[np.ndarray]:
  return tf.keras.models.load_model(folder / 'model.keras').get_weights()


def test_a_run_leaves_a_complete_folder(undisturbed):
  config = _json(undisturbed / 'config.json')
  assert config['task'] == 'stackoverflow' and config['algo'] == 'dp_fed_avg'
  assert config['noise_multiplier'] == 0.7 and config['seed'] == 0
  rows = _rows(undisturbed)
  assert [int(row['round']) for row in rows] == list(range(1, _ROUNDS + 1))
  results = _json(undisturbed / 'results.json')
  assert results['rounds'] == _ROUNDS and results['ended'] == 'finished'
  assert 1 < results['test_word_perplexity'] < float('inf')
  assert 0 <= results['test_word_accuracy'] <= 1
  card = _json(undisturbed / 'privacy_card.json')
  assert card['formal_guarantee'] is True
  assert card['epsilon'] == results['epsilon'] == float(rows[-1]['epsilon'])
  assert card['plan']['rounds_done'] == _ROUNDS
  page = (undisturbed / 'privacy_card.md').read_text()
  assert card['headline'] in page and 'differential privacy' in card['headline']
  report = (undisturbed / 'report.html').read_text()
  assert card['headline'] in report and 'Learning curves' in report
  model = tf.keras.models.load_model(undisturbed / 'model.keras')
  logits = model(np.array([[2, 5, 6, 7]], np.int32)).numpy()
  assert logits.shape == (1, 4, 400) and np.isfinite(logits).all()
  # The Keras model has the tied table of embeddings, 400 x 64, twice.
  num_weights = sum(weight.size for weight in model.get_weights()) - 400 * 64
  # Beside the update go five numbers of metrics, and whether the client was left out.
  assert results['bytes_up_per_client'] == 4 * (num_weights + 5 + 1)
  sent = {item['name']: item for item in card['leaves_device']}
  assert sent['update'] == {'name': 'update', 'bytes': 4 * num_weights, 'covered': True}
  assert not sent['loss']['covered'] and '| loss | 8 | **no** |' in page
  assert list((undisturbed / 'tokenizers').glob('*.model'))
  assert list((undisturbed / 'tensorboard').glob('events.out.tfevents.*'))
  assert 'TFF ExecutorService' in (undisturbed / 'worker_0.log').read_text()
  # Nothing half-written stays behind.
  assert not [path for path in undisturbed.rglob('*') if 'temp' in path.name]


@pytest.mark.slow  # The crash matrix strikes commands, too, some of them by default.
def test_killed_terminated_and_resumed_the_command_ends_where_it_would_have(
  undisturbed, root
):
  folder = root / 'disturbed'
  killed_at = 1  # Between checkpoints, which are every second round: work is lost.
  command = _Command(folder, *_PRIVATE)
  command.wait_for_round(killed_at)
  assert command.signal(signal.SIGKILL) == -signal.SIGKILL
  assert not (folder / 'results.json').exists()

  command = _Command(folder, *_PRIVATE)
  command.wait_for_round(killed_at + 1)
  assert command.signal(signal.SIGTERM) == 128 + signal.SIGTERM, command.log
  done = len(_rows(folder))
  assert killed_at < done < _ROUNDS
  assert f'stopped after round {done}' in command.log
  assert list(folder.rglob(f'program_state_{done}/saved_model.pb'))
  assert 'Traceback' not in command.log

  command = _Command(folder, *_PRIVATE)
  assert command.wait() == 0, command.log
  assert f'resuming after round {done}' in command.log
  assert 'test users: word accuracy' in command.log
  # The data folder is the same one, so that even the settings are.
  for name in ('metrics.csv', 'results.json', 'privacy_card.json', 'config.json'):
    assert (folder / name).read_bytes() == (undisturbed / name).read_bytes(), name
  for ours, theirs in zip(_weights(folder), _weights(undisturbed), strict=True):
    np.testing.assert_array_equal(ours, theirs)


def test_a_finished_command_can_be_repeated_and_other_settings_are_refused(
  undisturbed,
):
  before = {
    path: path.read_bytes()
    for path in (undisturbed / 'metrics.csv', undisturbed / 'privacy_card.json')
  }
  with pytest.raises(output.OutputError) as caught:
    _run(undisturbed, *_PRIVATE, '--seed=1', '--clip=0.25')
  assert '--seed: 0 before, 1 now' in str(caught.value)
  assert '--clip: 0.5 before, 0.25 now' in str(caught.value)
  assert '--noise_multiplier' not in str(caught.value)
  del caught  # It keeps the refused run, and with it the lock of the folder.
  # Another number of workers or of rounds between checkpoints is the same run.
  again = ('--rounds_per_checkpoint=5', '--max_concurrent_clients=1')
  assert _run(undisturbed, *_PRIVATE, *again) == 0
  for path, content in before.items():
    assert path.read_bytes() == content


@pytest.mark.slow
def test_two_workers_give_the_same_metrics_as_one(undisturbed, root):
  assert _run(root / 'two_workers', *_PRIVATE, '--num_workers=2') == 0
  for one, two in zip(_rows(undisturbed), _rows(root / 'two_workers'), strict=True):
    assert one.keys() == two.keys()
    for name, value in one.items():
      if value:
        assert float(two[name]) == pytest.approx(float(value), rel=1e-5), name
      else:
        assert two[name] == ''
  assert (root / 'two_workers' / 'worker_1.log').exists()


def test_federated_averaging_learns_the_embedded_corpus(root):
  folder = root / 'learns'
  code = _run(
    folder,
    *_TINY,
    '--algo=fed_avg',
    '--server_optimizer=adam',
    '--server_learning_rate=0.1',
    '--total_rounds=40',
    '--rounds_per_eval=39',
    '--rounds_per_checkpoint=40',
  )
  assert code == 0
  rows = _rows(folder)
  # A model that knows nothing needs log(400) = 6.0 nats a token.
  assert float(rows[0]['train_loss']) > 5.5
  assert float(rows[-1]['train_loss']) < 4.0
  guess = 400 ** float(rows[-1]['validation_tokens_per_word'])
  assert float(rows[-1]['validation_word_perplexity']) < guess / 100
  card = _json(folder / 'privacy_card.json')
  assert card['formal_guarantee'] is False and card['epsilon'] is None
  assert 'No formal guarantee' in (folder / 'privacy_card.md').read_text()


@pytest.fixture(scope='module')
def real_file(root) -> pathlib.Path:
  """A file in TFF's layout, and public text beside it."""
  data = embedded.build(0, num_train_users=12)
  groups = {'train': data.train, 'heldout': data.validation, 'test': data.test}
  stackoverflow_format.write(
    str(root / 'so.sqlite'),
    {
      split: {user: users.read(user) for user in users.client_ids[:12]}
      for split, users in groups.items()
    },
  )
  (root / 'public.txt').write_text('\n'.join(data.public_text[:2000]))
  return root / 'so.sqlite'


def test_a_real_file_needs_public_text_and_trains_with_it(root, real_file):
  given = (*_TINY, '--algo=fed_sgd', f'--data={real_file}', '--total_rounds=2')
  with pytest.raises(clients.DataError, match='--public_data=FILE'):
    _run(root / 'real', *given)
  assert _run(root / 'real', *given, f'--public_data={root / "public.txt"}') == 0
  results = _json(root / 'real' / 'results.json')
  assert results['rounds'] == 2 and results['test_num_words'] > 0


@pytest.mark.parametrize('kept', [0, 50, 5000])
def test_a_truncated_file_is_one_sentence(root, real_file, kept, monkeypatch, capsys):
  broken = root / f'broken_{kept}.sqlite'
  broken.write_bytes(real_file.read_bytes()[:kept])
  given = ('--algo=fed_avg', f'--data={broken}', *_where(root / 'broken'))
  monkeypatch.setattr(sys, 'argv', ['stackoverflow', *given])
  with pytest.raises(SystemExit) as caught:
    base.main(stackoverflow.TASK)
  assert caught.value.code == 2
  error = capsys.readouterr().err
  assert f'error: {broken}' in error and 'StackOverflow layout' in error
  assert 'Traceback' not in error
  assert not (root / 'broken').exists()


def test_an_oracle_tokenizer_is_a_comparison_without_a_claim(root):
  folder = root / 'oracle'
  given = ('--algo=dp_fed_avg', '--tokenizer_source=oracle', '--privacy_claim=false')
  mechanism = ('--noise_multiplier=1', '--total_rounds=1', '--cohort_sampling=fixed')
  assert _run(folder, *_TINY, *given, *mechanism) == 0
  card = _json(folder / 'privacy_card.json')
  assert card['formal_guarantee'] is False and card['epsilon'] is None
  reasons = ' '.join(card['reasons'])
  assert 'users’ own text' in reasons and '--privacy_claim=false' in reasons
  assert 'No formal guarantee' in (folder / 'privacy_card.md').read_text()
  assert _json(folder / 'results.json')['epsilon'] is None
  assert 'epsilon' not in _rows(folder)[0]
  # The mechanism is the one that is compared with.
  assert card['plan']['noise_multiplier'] > 0
  assert int(_rows(folder)[0]['num_clients']) == 5


def test_no_worker_of_this_process_is_left(undisturbed):
  del undisturbed  # Runs before.
  children = psutil.Process(os.getpid()).children()
  names = [child.name() for child in children if 'worker' in child.name()]
  # The session's own runtime may have one.
  assert len(names) <= 1
