"""Readers that are wrong on purpose: what the fuzz must catch."""

import ctypes
import pathlib
import subprocess
import time

import fuzz_readers

from tff_textpriv.datasets import clients


def _fails(name, read):
  """Makes a reader that is well with a good file alone."""

  def read_damaged(folder):
    content = (folder / 'x').read_bytes()
    if content != b'good content':
      read(folder)

  return fuzz_readers.Reader(name, lambda: {'x': 'good content'}, read_damaged)


def _raise(error):
  raise error


def _hang_in_native_code(_):
  ctypes.CDLL(None).sigfillset  # noqa: B018 (that it is there)
  blocked = (ctypes.c_ulong * 16)(*[2**64 - 1] * 16)
  ctypes.CDLL(None).sigprocmask(0, blocked, None)
  time.sleep(600)


TWINS = (
  _fails(
    'sound', lambda folder: _raise(clients.DataError.in_file(folder / 'x', 'bad'))
  ),
  _fails('traceback', lambda _: _raise(KeyError('x'))),
  _fails('nameless', lambda _: _raise(clients.DataError('something is bad'))),
  _fails('foreign error', lambda folder: _raise(ValueError(f'{folder}: bad'))),
  _fails('outside', lambda _: pathlib.Path('/etc/passwd').read_bytes()),
  _fails('writes', lambda folder: (folder.parent.parent / 'new').mkdir()),
  _fails('program', lambda _: subprocess.run(['true'], check=True)),
  _fails('memory', lambda _: bytearray(10**11)),
  _fails('crash', lambda _: ctypes.string_at(0)),
  _fails('deaf', _hang_in_native_code),
)
