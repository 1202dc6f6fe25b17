"""Keys by which a run and its workers on other machines know each other (mutual TLS).

A file of each kind is made at a time, signed by an authority of which nothing is kept
but its certificate: who has `run.pem` may compute on the workers, and who has
`worker.pem` may serve them, but not compute on others. A host's name does not matter, so
that tunnels and changing addresses do not either.
"""

import datetime
import pathlib
import stat
from typing import NamedTuple

from cryptography import exceptions, x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tff_textpriv import files

RUN_FILE = 'run.pem'
WORKER_FILE = 'worker.pem'
# The domain of workers. What comes before it names the session that a run wants.
DOMAIN = 'worker.tff-textpriv'

_END_OF_CERTIFICATE = b'-----END CERTIFICATE-----\n'
# Clocks of two machines differ.
_BACKDATED = datetime.timedelta(days=1)


class KeyFileError(ValueError):
  """A key file cannot be used; the message names it and says why."""


class Keys(NamedTuple):
  """What one side has to show, and what it believes; each in PEM.

  Attributes:
    key: The private key.
    certificate: Its certificate.
    authority: The certificate of who must have signed the other side's.
  """

  key: bytes
  certificate: bytes
  authority: bytes

  def __repr__(self) -> str:
    return 'Keys(...)'


def make(folder: pathlib.Path, days: int) -> tuple[pathlib.Path, pathlib.Path]:
  """Writes a new pair of key files, for the run and for the workers.

  Args:
    folder: Where to; made, and for its owner alone, if missing.
    days: How long they are good for.

  Returns:
    The file for the run and the file for the hosts of workers.

  Raises:
    KeyFileError: If there is such a file already.
  """
  run_file, worker_file = folder / RUN_FILE, folder / WORKER_FILE
  for file in (run_file, worker_file):
    if file.exists():
      raise KeyFileError(
        f'{file} is there already; remove it, or choose another folder'
      )
  folder.mkdir(mode=0o700, parents=True, exist_ok=True)
  now = datetime.datetime.now(datetime.UTC)
  times = now - _BACKDATED, now + datetime.timedelta(days=days)
  authority = ec.generate_private_key(ec.SECP256R1())
  name = _name('tff_textpriv')
  root = (
    _draft(name, name, authority, times)
    .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    .sign(authority, hashes.SHA256())
  )
  for file, purpose in (
    (run_file, ExtendedKeyUsageOID.CLIENT_AUTH),
    (worker_file, ExtendedKeyUsageOID.SERVER_AUTH),
  ):
    key = ec.generate_private_key(ec.SECP256R1())
    signed = (
      _draft(_name(file.stem), name, key, times)
      .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
      .add_extension(x509.ExtendedKeyUsage([purpose]), critical=True)
      .add_extension(
        x509.SubjectAlternativeName([x509.DNSName(f'*.{DOMAIN}')]), critical=False
      )
      .sign(authority, hashes.SHA256())
    )
    secret = key.private_bytes(
      serialization.Encoding.PEM,
      serialization.PrivateFormat.PKCS8,
      serialization.NoEncryption(),
    )
    certificates = [
      each.public_bytes(serialization.Encoding.PEM) for each in (signed, root)
    ]
    with files.replacing(file) as partial:
      partial.touch(0o600)
      partial.write_bytes(b''.join([secret, *certificates]))
  return run_file, worker_file


def read(file: pathlib.Path) -> Keys:
  """Reads a key file.

  Raises:
    KeyFileError: If it is missing, damaged, out of date or open to others.
  """
  try:
    others = file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    content = file.read_bytes()
  except OSError as error:
    raise KeyFileError(
      f'{file}: {error.strerror}; `python -m tff_textpriv.tools.certificates` makes'
      f' {RUN_FILE}, and {WORKER_FILE} to copy to the hosts of workers'
    ) from error
  if others:
    raise KeyFileError(f'{file} is open to other users: run `chmod 600 {file}`')
  parts = content.split(_END_OF_CERTIFICATE)
  try:
    own, authority, nothing = parts
    key, begin, rest = own.partition(b'-----BEGIN CERTIFICATE-----')
    certificate = begin + rest + _END_OF_CERTIFICATE
    parsed = x509.load_pem_x509_certificate(certificate)
    private = serialization.load_pem_private_key(key, password=None)
    belong_together = private.public_key() == parsed.public_key()
    authority += _END_OF_CERTIFICATE
    x509.load_pem_x509_certificate(authority)
    if nothing or not belong_together:
      raise ValueError()
  except (
    ValueError,
    TypeError,
    exceptions.UnsupportedAlgorithm,
    x509.InvalidVersion,
  ):
    # Without its cause, which may quote a part of the key.
    raise KeyFileError(
      f'{file} is no key file of `python -m tff_textpriv.tools.certificates`'
    ) from None
  if parsed.not_valid_after_utc < datetime.datetime.now(datetime.UTC):
    raise KeyFileError(
      f'{file} was good until {parsed.not_valid_after_utc:%Y-%m-%d}: make new ones with'
      ' `python -m tff_textpriv.tools.certificates`'
    )
  return Keys(key, certificate, authority)


def _name(common_name: str) -> x509.Name:
  return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _draft(
  subject: x509.Name,
  issuer: x509.Name,
  key: ec.EllipticCurvePrivateKey,
  times: tuple[datetime.datetime, datetime.datetime],
) -> x509.CertificateBuilder:
  """Begins a certificate."""
  return (
    x509.CertificateBuilder()
    .subject_name(subject)
    .issuer_name(issuer)
    .public_key(key.public_key())
    .serial_number(x509.random_serial_number())
    .not_valid_before(times[0])
    .not_valid_after(times[1])
  )
