"""Files from somebody else run no program, and read and write no file elsewhere."""

import ast
import os
import pathlib

import h5py
import numpy as np
import pytest

import tff_textpriv
from tff_textpriv import flags
from tff_textpriv.datasets import clients, imdb, newsgroups, user_records
from tff_textpriv.export import folders, runs
from tff_textpriv.models import pretrained
from tff_textpriv.reports import page
from tff_textpriv.runtime import device_store

_PACKAGE = pathlib.Path(tff_textpriv.__file__).parent
# What turns a file's content into a program.
_MODULES = (
  'pickle',
  'cloudpickle',
  'dill',
  'joblib',
  'marshal',
  'shelve',
  'yaml',
  'torch',
)
_CALLS = (
  'eval', 'exec', 'compile', 'os.system', 'os.popen', 'np.load', 'numpy.load',
  'np.genfromtxt', 'tf.saved_model.load', 'tf.keras.models.load_model',
  'tf.py_function', 'tf.numpy_function', 'tf.load_op_library', 'tf.load_library',
)  # fmt: skip
# The one place that may, since it looks at the file before.
_EXCEPTIONS = {('models/saved_models.py', 'tf.keras.models.load_model')}


def _suspicious(source):
  """Returns what in a module could run a file's content."""
  found = []
  for node in ast.walk(ast.parse(source)):
    names = []
    if isinstance(node, ast.Import):
      names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
      names = [node.module or '']
    found += [name for name in names if name.split('.')[0] in _MODULES]
    if isinstance(node, ast.Call):
      name = ast.unparse(node.func)
      shell = any(
        keyword.arg == 'shell' or (keyword.arg == 'allow_pickle')
        for keyword in node.keywords
      )
      if name in _CALLS or shell:
        found.append(name)
  return found


def test_no_module_runs_what_is_in_a_file():
  found = {
    (str(module.relative_to(_PACKAGE)), name)
    for module in _PACKAGE.rglob('*.py')
    for name in _suspicious(module.read_text())
  }
  assert found == _EXCEPTIONS


@pytest.mark.parametrize(
  'source',
  [
    'import pickle',
    'from joblib import load',
    'eval(text)',
    'np.load(file)',
    'np.loadtxt(file, allow_pickle=True)',
    'subprocess.run(text, shell=True)',
    'tf.saved_model.load(folder)',
  ],
)
def test_a_module_that_does_would_be_found(source):
  assert _suspicious(source)


def test_tensors_that_are_in_another_file_are_refused(tmp_path):
  (tmp_path / 'secret').write_bytes(bytes(range(16)))
  with h5py.File(tmp_path / 'a.h5', 'w') as file:
    file.create_dataset(
      'x', (4,), np.float32, external=[(str(tmp_path / 'secret'), 0, 16)]
    )
  with pytest.raises(pretrained.PretrainedError, match='a.h5: .*x is kept in another'):
    pretrained.read_tensors(tmp_path)


def test_virtual_tensors_are_refused(tmp_path):
  with h5py.File(tmp_path / 'other', 'w') as file:
    file['y'] = np.ones(4, np.float32)
  layout = h5py.VirtualLayout((4,), np.float32)
  layout[:] = h5py.VirtualSource(str(tmp_path / 'other'), 'y', (4,))
  with h5py.File(tmp_path / 'a.h5', 'w') as file:
    file.create_virtual_dataset('x', layout)
  with pytest.raises(pretrained.PretrainedError, match='a.h5: .*x is kept in another'):
    pretrained.read_tensors(tmp_path)


def test_links_from_one_hdf5_file_to_another_are_not_followed(tmp_path):
  with h5py.File(tmp_path / 'other', 'w') as file:
    file['y'] = np.ones(4, np.float32)
  with h5py.File(tmp_path / 'a.h5', 'w') as file:
    file['z'] = np.zeros(2, np.float32)
    file['x'] = h5py.ExternalLink(str(tmp_path / 'other'), 'y')
  tensors = pretrained.read_tensors(tmp_path)
  assert tensors.take('z').shape == (2,)
  with pytest.raises(pretrained.PretrainedError, match='there is no tensor x'):
    tensors.take('x')


def test_a_tensor_larger_than_its_file_takes_no_memory(tmp_path):
  with h5py.File(tmp_path / 'a.h5', 'w') as file:
    file.create_dataset('x', (10**12,), np.float32, chunks=(1000,))
  with pytest.raises(pretrained.PretrainedError, match='x is larger than the file'):
    pretrained.read_tensors(tmp_path)


@pytest.mark.parametrize(
  'user',
  [
    '..',
    '.',
    '',
    '../../x',
    '/etc/passwd',
    'a/b',
    'a' * 1_000,
    'é' * 200,
    '\ud800',
    '%',
  ],
)
def test_whatever_a_user_is_called_its_folder_is_in_the_store(tmp_path, user):
  root = tmp_path / 'run/devices'
  store = device_store.DeviceStore(root, lambda _: {'state': b'x'})
  [(before, after)] = store.begin([user], 1)
  for file in (before, after):
    assert pathlib.Path(file).resolve().parent.parent == root
  assert [path.name for path in tmp_path.rglob('*') if path.is_dir()].count(
    'devices'
  ) == 1
  assert os.listdir(tmp_path) == ['run']


def test_no_two_users_share_a_folder(tmp_path):
  long = 'b' * 1_000
  names = ['..', '%2E%2E', '', '%', '%%', long, long + 'c', long[:134] + '%%']
  store = device_store.DeviceStore(tmp_path, lambda user: {'state': user.encode()})
  for user in names:
    assert store.state(user) == user.encode()


@pytest.mark.parametrize('reader', ['text folder', 'imdb', 'newsgroups'])
def test_a_link_out_of_a_folder_of_texts_is_refused(tmp_path, reader):
  secret = tmp_path / 'secret.txt'
  secret.write_text('a secret')
  place = {
    'text folder': 'data/ann',
    'imdb': 'data/train/neg',
    'newsgroups': 'data/20news-bydate-train/a',
  }[reader]
  (tmp_path / place).mkdir(parents=True)
  (tmp_path / 'data/20news-bydate-train/b').mkdir(parents=True)
  (tmp_path / place / 'x.txt').symlink_to(secret)
  read = {
    'text folder': lambda: user_records.text_files(str(tmp_path / 'data')),
    'imdb': lambda: imdb.load(str(tmp_path / 'data'), 0),
    'newsgroups': lambda: newsgroups.load(str(tmp_path / 'data'), 0),
  }[reader]
  with pytest.raises(
    clients.DataError, match='x.txt: is a link to a file that is not in'
  ):
    read()


def test_a_report_shows_no_file_that_a_link_leads_to(tmp_path):
  (tmp_path / 'secret').write_text('a secret of this machine')
  run = tmp_path / 'run'
  (run / 'samples').mkdir(parents=True)
  (run / 'config.json').write_text('{"task": "ptb", "algo": "fed_avg"}')
  for name in (
    'privacy_card.md',
    'tokenizer_lineage.md',
    'samples/1.txt',
    'metrics.csv',
  ):
    (run / name).symlink_to(tmp_path / 'secret')
  page.write([run], tmp_path / 'report.html')
  shown = (tmp_path / 'report.html').read_text()
  assert 'a secret' not in shown
  assert shown.count('it is a link to another file') >= 3


@pytest.mark.parametrize(
  'link', ['privacy_card.md', 'tokenizers/0.model', 'model.json']
)
def test_an_export_copies_no_file_that_a_link_leads_to(tmp_path, link):
  import fuzz_readers

  (tmp_path / 'secret').write_text('a secret of this machine')
  readers = {reader.name: reader for reader in fuzz_readers.READERS}
  run = tmp_path / 'run'
  for name, content in readers['export language model'].good.items():
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    (run / name).write_bytes(content.encode() if isinstance(content, str) else content)
  opened = runs.read(str(run))
  (run / link).unlink()
  (run / link).symlink_to(tmp_path / 'secret')
  with pytest.raises(
    runs.ExportError, match='is not in the folder of the run'
  ) as caught:
    folders.write(opened, 'keras', tmp_path / 'out', number=1, quantize=False)
  assert flags.is_mistake(caught.value)
  assert not (tmp_path / 'out').exists()
