"""A child process of a sweep, in which a stand-in takes the place of training.

Which runs fail is decided by their settings, until a file `mended` is in the sweep's
folder. A file `begun` there counts, a line each, the runs that were begun.
"""

import os
import signal
import time

import stand_in_run

from tff_textpriv import settings as settings_lib
from tff_textpriv.experiments import sweep_child
from tff_textpriv.tasks import base
from tff_textpriv.training import stopping

FAILS_BY_MISTAKE, FAILS, CRASHES = 66, 67, 68  # Numbers of clients.
_ROUND_SECONDS = 0.02


def _run(experiment):
  """Takes as many naps as there are rounds, and makes up an AUC."""
  sweep_folder = experiment.folder.parent
  with open(sweep_folder / 'begun', 'a') as file:
    file.write(f'{experiment.folder.name}\n')
  clients = experiment.task_settings.num_clients
  if not (sweep_folder / 'mended').exists():
    if clients == FAILS_BY_MISTAKE:
      raise settings_lib.SettingsError('num_clients', clients, 'is not my number')
    if clients == FAILS:
      raise RuntimeError('first line\nsecond line')
    if clients == CRASHES:
      os.kill(os.getpid(), signal.SIGKILL)
  with stopping.stop_on_signals() as stop:
    print(f'pretending to train in {experiment.folder.name}')
    for _ in range(experiment.run.total_rounds):
      time.sleep(_ROUND_SECONDS)
      if stop:
        return 128 + stop.signal_number
  epsilon = getattr(experiment.privacy_settings, 'epsilon_per_coordinate', None)
  auc = 0.5 + (epsilon or 0) / 100 + clients / 1000 + experiment.run.seed**2 / 100
  cores = len(os.sched_getaffinity(0))
  stand_in_run.write(
    experiment,
    {'ended': 'finished', 'epsilon': epsilon, 'test_auc': auc, 'test_cores': cores},
  )
  return 0


base.run = _run
sweep_child.serve()
