"""What a stand-in for training leaves in a run's folder, and a process of stand-ins."""

import json
import pathlib
import sys

_HERE = str(pathlib.Path(__file__).parent)
# In the place of `sweep_children.COMMAND`: a child in which nothing is trained.
CHILD_COMMAND = (
  sys.executable,
  '-u',
  '-c',
  f'import sys; sys.path.insert(0, {_HERE!r}); import stand_in_child',
)


def write(experiment, results, metrics=None):
  """Writes the files of a run of the experiment: these results, and metrics.csv."""
  folder = experiment.folder
  folder.mkdir(parents=True, exist_ok=True)
  (folder / 'config.json').write_text(json.dumps(experiment.config))
  if metrics is not None:
    (folder / 'metrics.csv').write_text(metrics)
  (folder / 'results.json').write_text(json.dumps(results))


def write_stopped(experiment, last_round):
  """Writes the files of a run that was stopped after a round."""
  folder = experiment.folder
  folder.mkdir(parents=True, exist_ok=True)
  (folder / 'config.json').write_text(json.dumps(experiment.config))
  rounds = ''.join(f'{number}\n' for number in range(1, last_round + 1))
  (folder / 'metrics.csv').write_text(f'round\n{rounds}')
