"""The Python API: a task's command as a function that returns what the run has left.

import tff_textpriv

result = tff_textpriv.run('imdb', 'rr_ldp', total_rounds=10)
result.metrics['test_auc'], result.privacy_card, result.model
"""

import signal
from typing import Any

from tff_textpriv import flags, results, settings
from tff_textpriv.tasks import base


def run(task: str, algo: str, **given: Any) -> results.Result:
  """Runs an experiment as `python -m tff_textpriv.tasks.TASK --algo=ALGO` does.

  It is the same code: the same settings and seed give the same files in the same
  folder, a run that was interrupted goes on when the call is repeated, and one that had
  finished is only tested again.

  Args:
    task: The task, one of the modules in `tff_textpriv.tasks`.
    algo: The algorithm.
    **given: The task's flags by name, as Python values: `total_rounds=10`,
      `tied_embeddings=False`, `workers=['host1:10000']`, `data=path`.

  Returns:
    The finished run.

  Raises:
    ValueError: What the command would refuse, in the same words: a name or a value that
      is wrong, data that cannot be read, a folder with other settings.
    KeyboardInterrupt: If the run was interrupted; a checkpoint has been saved.
  """
  for name, value in given.items():
    if value is None:
      raise settings.SettingsError(
        name, None, 'cannot be None; leave it out for the default'
      )
  flags.silence_tensorflow()
  experiment = base.parse(
    base.find(task),
    [
      f'--{name}={settings.format_value(value)}'
      for name, value in {'algo': algo, **given}.items()
    ],
  )
  code = base.run(experiment)
  if code:
    name = signal.Signals(code - 128).name
    raise KeyboardInterrupt(f'{name} stopped the run; repeat the call to go on')
  return results.load(experiment.folder)
