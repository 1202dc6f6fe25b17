"""The algorithms by the names that `--algo` takes.

To add one to the package: write its module, with settings, builder and `ALGORITHM`, and
name it here. Programs add theirs with `register`.
"""

import dataclasses
import importlib

from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes.algorithm import Algorithm
from tff_textpriv.privacy.mechanism import MechanismSettings

_MODULES = (
  'central',
  'dp_fed_avg',
  'dp_ftrl',
  'fed_att',
  'fed_avg',
  'fed_nova',
  'fed_prox',
  'fed_recon',
  'fed_sgd',
  'fede_vocab',
  'lg_fedavg',
  'local_only',
  'robust_avg',
  'rr_ldp',
  'scaffold',
  'subword_resample',
)

ALGORITHMS: dict[str, Algorithm] = {
  name: importlib.import_module(f'tff_textpriv.iterative_processes.{name}').ALGORITHM
  for name in _MODULES
}


def register(algorithm: Algorithm) -> None:
  """Adds an algorithm of a program's own, or puts it in the place of one that was added.

  Raises:
    SettingsError: If its name is that of one of the package.
  """
  if algorithm.name in _MODULES:
    raise settings_lib.SettingsError(
      'algo', algorithm.name, 'is an algorithm of the package; give yours another name'
    )
  ALGORITHMS[algorithm.name] = algorithm


def offer(name: str, settings: type[MechanismSettings], of: str) -> None:
  """Lets an algorithm have a mechanism of a program's own, as `--mechanism=NAME`.

  Args:
    name: What it is called.
    settings: Its flags, which make it.
    of: The algorithm's name.

  Raises:
    SettingsError: If there is no such algorithm, or it has its mechanism of that name.
  """
  if of not in ALGORITHMS:
    hint = settings_lib.did_you_mean(of, ALGORITHMS)
    raise settings_lib.SettingsError('algo', of, f'is no algorithm{hint}')
  taken = ALGORITHMS[of].choices.get(name)
  if taken is not None and taken.privacy.__module__.startswith('tff_textpriv.'):
    raise settings_lib.SettingsError(
      'mechanism', name, f'--algo={of} has one of that name; give yours another'
    )
  mechanisms = {**ALGORITHMS[of].mechanisms, name: settings}
  ALGORITHMS[of] = dataclasses.replace(ALGORITHMS[of], mechanisms=mechanisms)
