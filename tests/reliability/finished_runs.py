"""Whether two runs that came to their end are the same."""

import pathlib
import zipfile

import crash_faults
import h5py
import numpy as np

# The files that hold no time of day.
_SAME = (
  'config.json', 'metrics.csv', 'model.json', 'privacy_card.json', 'privacy_card.md',
  'results.json',
)  # fmt: skip


def assert_same(folder: pathlib.Path, reference: pathlib.Path) -> None:
  """Holds that a run left, byte for byte, what one that was left alone left."""
  names = [path.name for path in reference.iterdir() if path.name in _SAME]
  assert len(names) >= len(_SAME) - 1  # Where all stays local there is no model.json.
  for name in names:
    assert (folder / name).read_bytes() == (reference / name).read_bytes(), name
  assert _weights(folder).keys() == _weights(reference).keys()
  for name, weight in _weights(reference).items():
    np.testing.assert_array_equal(_weights(folder)[name], weight, name)
  # The server's state, with optimizer and ledger, and what devices keep.
  assert _last_checkpoint(folder) == _last_checkpoint(reference)
  assert _device_states(folder) == _device_states(reference)
  assert (folder / 'report.html').read_text().endswith('</html>\n')
  unfinished = [
    path for path in folder.rglob('*') if 'temp' in path.name or 'partial' in path.name
  ]
  assert not unfinished
  assert not list(pathlib.Path('/dev/shm').glob(f'tff_textpriv_*{folder.name}*'))


def _weights(folder: pathlib.Path) -> dict[str, np.ndarray]:
  """Reads the weights of a run's model, if the server has one."""
  if not (folder / 'model.keras').exists():
    return {}
  weights: dict[str, np.ndarray] = {}

  def collect(name: str, node: h5py.Group | h5py.Dataset) -> None:
    if isinstance(node, h5py.Dataset):
      weights[name] = node[()]

  with (
    zipfile.ZipFile(folder / 'model.keras') as archive,
    archive.open('model.weights.h5') as stream,
    h5py.File(stream) as file,
  ):
    file.visititems(collect)
  return weights


def _last_checkpoint(folder: pathlib.Path) -> tuple[str, bytes]:
  checkpoint = crash_faults.newest_checkpoint(folder)
  assert checkpoint is not None
  (file,) = checkpoint.glob('variables/*.data-*')
  return checkpoint.name, file.read_bytes()


def _device_states(folder: pathlib.Path) -> dict[str, bytes]:
  """Returns the newest state of each device, where there are any."""
  return {
    device.name: max(device.glob('*.bin'), key=lambda file: int(file.stem)).read_bytes()
    for device in folder.glob('devices/*')
  }
