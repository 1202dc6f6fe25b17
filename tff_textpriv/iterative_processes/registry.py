"""The algorithms by the names that `--algo` takes.

To add one: write its module, with settings, builder and `ALGORITHM`, and name it here.
"""

import importlib

from tff_textpriv.iterative_processes.algorithm import Algorithm

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
