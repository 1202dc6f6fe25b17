"""Makes the keys by which runs and workers on other machines know each other.

  python -m tff_textpriv.tools.certificates

`run.pem` stays here, for runs with `--workers=... --workers_key=keys/run.pem`. Copy
`worker.pem`, as it is, to each host of `python -m tff_textpriv.tools.worker`.
"""

import dataclasses
import pathlib

from tff_textpriv import flags
from tff_textpriv.runtime import certificates
from tff_textpriv.settings import Settings, setting


@dataclasses.dataclass(frozen=True)
class CertificateSettings(Settings):
  """Where the keys go, and for how long they are good."""

  folder: str = setting('keys', 'The folder to write them to; none may be there.')
  days: int = setting(365, 'The days until they end.', low=1, high=36500)


def main(settings: CertificateSettings) -> int:
  """Writes both files; returns the exit code.

  Raises:
    KeyFileError: If one of them is there already.
  """
  run_file, worker_file = certificates.make(
    pathlib.Path(settings.folder), settings.days
  )
  print(
    f'{run_file}: keep it here; who has it can compute on your workers, and so read and'
    f' write files there as you. Use it with --workers_key={run_file}\n'
    f'{worker_file}: copy it to each host of workers, e.g. `scp -p {worker_file} host1:`,'
    f' and start them there with `python -m tff_textpriv.tools.worker'
    f' --key_file={worker_file.name}`'
  )
  return 0


if __name__ == '__main__':
  flags.run(main, CertificateSettings, __doc__.splitlines()[0])
