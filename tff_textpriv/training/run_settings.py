"""Settings of a run that are not its task's nor its algorithm's."""

import dataclasses

from tff_textpriv import settings as settings_lib
from tff_textpriv.runtime import isolation
from tff_textpriv.settings import setting


@dataclasses.dataclass(frozen=True)
class RunSettings(settings_lib.Settings):
  """What decides the result, together with the task and the algorithm."""

  total_rounds: int = setting(
    100, 'Rounds of training.', low=1, key='rounds of training'
  )
  clients_per_round: int = setting(
    20,
    'Users a round: the expected number, or with fixed cohorts the exact one.',
    low=1,
    key='users per round',
  )
  cohort_sampling: str = setting(
    'poisson',
    'How users are drawn: each independently (poisson), a fixed number without '
    'replacement (fixed), or each in its turn, not by chance (separated).',
    choices=('poisson', 'fixed', 'separated'),
  )
  rounds_per_eval: int = setting(
    20, 'Rounds between evaluations on the validation users.', low=1
  )
  seed: int = setting(
    0,
    'Decides every random number of the run.',
    low=0,
    high=2**31 - 1,
    key='decides every random number of the run',
  )

  @property
  def device_failure_rate(self) -> float:
    """The share of a round's clients who drop out before they have reported."""
    return 0.0

  def cohort(self, num_clients: int) -> int:
    """Returns how many clients take part in a round, of so many."""
    del num_clients  # As many as were asked for, or it is an error.
    return self.clients_per_round


@dataclasses.dataclass(frozen=True)
class MachineSettings(settings_lib.Settings):
  """Where a run writes and what it runs on; may differ when it is resumed."""

  root_output_dir: str = setting(
    'runs', 'The folder of all runs.', key='the folder of all runs'
  )
  experiment_name: str | None = setting(
    None,
    'The name of the run and of its folder; by default the task and algorithm.',
    key='the name of the run and of its folder',
  )
  forget_secret: bool = setting(
    False,
    'With --noise_source=system: delete the secret from which the noise follows when the '
    'run is done, so that nobody can compute it any more.',
  )
  rounds_per_checkpoint: int = setting(20, 'Rounds between checkpoints.', low=1)
  stop_after_round: int | None = setting(
    None,
    'End after this round with a checkpoint, as Ctrl-C would; the same command without '
    'it goes on.',
    low=1,
  )
  num_workers: int = setting(
    1, 'TFF worker processes on this machine among which a cohort is spread.', low=1
  )
  workers: tuple[str, ...] = setting(
    (),
    'Workers on other machines, as host:port,... (see tff_textpriv.tools.worker); '
    'used instead of local ones.',
  )
  workers_key: str | None = setting(
    None,
    'run.pem of tff_textpriv.tools.certificates, by which --workers and the run know '
    'each other.',
  )
  insecure_workers: bool = setting(
    False,
    'Use --workers that ask nobody for a key, and send users’ text to them unencrypted.',
  )
  worker_patience: float = setting(
    60.0,
    'Seconds that one of --workers may be away before the others go on without it.',
    low=0,
  )
  min_workers: int = setting(
    1, 'How many of --workers there must be; with fewer the run ends.', low=1
  )
  balance_workers: bool = setting(
    False,
    'Give faster workers more clients, by their measured speed; results then differ in '
    'their last digits from run to run.',
  )
  max_concurrent_clients: int = setting(
    0,
    'Clients that a worker trains at the same time, which bounds its memory; 0 for as '
    'many as it has cores.',
    low=0,
  )
  isolate_workers: str = setting(
    'auto',
    'Workers on this machine in a network of their own, which only the run can reach: '
    'where the kernel allows it, with a warning if not (auto), or not at all (off); '
    'require refuses to run otherwise.',
    choices=isolation.POLICIES,
  )
