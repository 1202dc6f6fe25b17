"""Damages files: small random changes of bytes, lines, fields and JSON values."""

import json
import random
import re
from collections.abc import Callable
from typing import Any

Mutation = Callable[[bytes, random.Random], bytes]

# What readers meet where they expect something else.
_MORSELS = (
  b'\x00', b'\x00' * 64, b'\xff\xfe', b'\xc3\x28', b'\xed\xa0\x80', b'\xf4\x90\x80\x80',
  b'\xef\xbb\xbf', b'\r', b'\n', b'\t', b'"', b'""', b"'", b',', b';', b'::', b'|', b'\\',
  b'{', b'}', b'[', b']', b'null', b'true', b'NaN', b'-Infinity', b'"\\ud800"', b'\\udfff',
  b'../../x', b'/etc/passwd', b'..', b'%s%n', b'a' * 200_000, b'9' * 5_000,
  b'[' * 100_000, b'{"a":' * 20_000, b'=' * 3_000 + b' ', b'<' * 5_000, b' ' * 50_000,
)  # fmt: skip
_NUMBERS = (
  b'-1', b'0', b'1e999', b'-0.0', b'1e-400', b'18446744073709551616', b'4294967295',
  b'9223372036854775807', b'nan', b'0x10', b'1_000', b'\xd9\xa3', b'9' * 5_000,
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
  None, True, -1, 0, 10**30, 1e308, float('nan'), float('inf'), '', 'x', '..', '/',
  '../../x', '\ud800', '\x00', [], {}, [[]], [None], {'': None}, 'a' * 10_000,
)  # fmt: skip


def mutate(content: bytes, rng: random.Random) -> bytes:
  """Changes a file's content in one to three ways."""
  for _ in range(rng.randint(1, 3)):
    content = rng.choice(_MUTATIONS)(content, rng)
  return content


def _place(content: bytes, rng: random.Random) -> int:
  return rng.randint(0, len(content))


def _flip_bits(content: bytes, rng: random.Random) -> bytes:
  changed = bytearray(content)
  for _ in range(rng.randint(1, 8) if content else 0):
    changed[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
  return bytes(changed)


def _set_bytes(content: bytes, rng: random.Random) -> bytes:
  """Overwrites a few bytes, as lengths and offsets in binary files are hit best."""
  start = _place(content, rng)
  new = rng.choice((b'\x00', b'\xff', b'\x7f', b'\x80')) * rng.choice((1, 2, 4, 8))
  return content[:start] + new + content[start + len(new) :]


def _truncate(content: bytes, rng: random.Random) -> bytes:
  return content[: _place(content, rng)]


def _cut_out(content: bytes, rng: random.Random) -> bytes:
  start = _place(content, rng)
  return content[:start] + content[start + rng.choice((1, 2, 8, 100)) :]


def _splice(content: bytes, rng: random.Random) -> bytes:
  """Copies a part of the file to another place."""
  start = _place(content, rng)
  part = content[start : start + rng.choice((1, 4, 30, 1_000))]
  place = _place(content, rng)
  return content[:place] + part + content[place:]


def _repeat(content: bytes, rng: random.Random) -> bytes:
  start = _place(content, rng)
  part = content[start : start + rng.choice((1, 3, 20))]
  return content[:start] + part * rng.choice((2, 10, 1_000)) + content[start:]


def _insert(content: bytes, rng: random.Random) -> bytes:
  place = _place(content, rng)
  return content[:place] + rng.choice(_MORSELS) + content[place:]


def _lines(content: bytes, rng: random.Random) -> bytes:
  """Swaps, doubles or deletes a line."""
  lines = content.split(b'\n')
  one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
  way = rng.randrange(3)
  if way == 0:
    lines[one], lines[other] = lines[other], lines[one]
  elif way == 1:
    lines.insert(one, lines[other])
  else:
    del lines[one]
  return b'\n'.join(lines)


def _number(content: bytes, rng: random.Random) -> bytes:
  """Puts another number in the place of one."""
  found = list(re.finditer(rb'-?\d+(?:\.\d+)?', content))
  if not found:
    return _insert(content, rng)
  start, end = rng.choice(found).span()
  return content[:start] + rng.choice(_NUMBERS) + content[end:]


def _json_value(content: bytes, rng: random.Random) -> bytes:
  """Puts another value in the place of one of a JSON file, or of a line of one."""
  whole: list[bytes] = [content]
  try:
    json.loads(content)
  except (ValueError, RecursionError):
    whole = content.split(b'\n')
  number = rng.randrange(len(whole))
  try:
    value = json.loads(whole[number])
    whole[number] = json.dumps(_replaced(value, rng)).encode()
  except (ValueError, RecursionError):
    return _flip_bits(content, rng)
  return b'\n'.join(whole)


def _replaced(value: Any, rng: random.Random) -> Any:
  """Replaces or drops a random part of a JSON value."""
  keys = list(value) if isinstance(value, dict) else []
  keys = list(range(len(value))) if isinstance(value, list) else keys
  if not keys or rng.random() < 0.1:
    return rng.choice(_VALUES)
  key = rng.choice(keys)
  if rng.random() < 0.15:
    del value[key]
  else:
    value[key] = _replaced(value[key], rng)
  return value


_MUTATIONS: tuple[Mutation, ...] = (
  _flip_bits, _flip_bits, _set_bytes, _truncate, _cut_out, _splice, _repeat, _insert,
  _insert, _lines, _number, _json_value, _json_value,
)  # fmt: skip
