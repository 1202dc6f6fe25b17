"""Placeholders in study files: `{method}`, `{range:g}`, `{total_rounds * 0.2 - 1}`.

A placeholder names a value of the grid or a flag of the runs. It may be a product of
names and numbers, which is rounded and at least 1, less a whole number. A text that is
one placeholder and nothing else becomes the value itself; others stay text.
"""

import re
from collections.abc import Mapping
from typing import Any

from tff_textpriv import settings as settings_lib

_PLACEHOLDER = re.compile(r'\{([^{}:]*)(?::([^{}]*))?\}')
_FORMATS = ('g', ',')
_NUMBER = re.compile(r'[0-9]+(\.[0-9]+)?')


class TemplateError(ValueError):
  """A placeholder cannot be filled in; the message quotes it."""


def expand(value: Any, names: Mapping[str, Any]) -> Any:
  """Fills in the placeholders of a text, or of the texts of a list.

  Args:
    value: A text, a list, or anything else, which has no placeholders.
    names: What placeholders may name.
  """
  if isinstance(value, list):
    return [expand(element, names) for element in value]
  if not isinstance(value, str):
    return value
  whole = _PLACEHOLDER.fullmatch(value)
  if whole is not None and whole[2] is None:
    return _value(whole[1], names)
  return _PLACEHOLDER.sub(lambda found: _text(found, names), value)


def names_in(value: Any) -> set[str]:
  """Returns the names that the placeholders of a value use."""
  if isinstance(value, list):
    return set().union(*map(names_in, value))
  if not isinstance(value, str):
    return set()
  return {
    factor
    for expression, _ in _PLACEHOLDER.findall(value)
    for factor in _factors(expression)
    if not _NUMBER.fullmatch(factor)
  }


def _text(found: re.Match[str], names: Mapping[str, Any]) -> str:
  """Writes a placeholder's value, in its format if it has one."""
  value, pattern = _value(found[1], names), found[2]
  if pattern is None:
    return settings_lib.format_value(value)
  if pattern not in _FORMATS or not _is_number(value):
    raise TemplateError(
      f'{found[0]}: a number may be formatted by {" or ".join(_FORMATS)}, and nothing else'
    )
  return f'{value:{pattern}}'


def _factors(expression: str) -> list[str]:
  return [factor.strip() for factor in expression.partition('-')[0].split('*')]


def _value(expression: str, names: Mapping[str, Any]) -> Any:
  """Returns the value of `name`, or of `name * name * number - number`."""
  factors, less = _factors(expression), expression.partition('-')[2].strip()
  values = [_factor(factor, names) for factor in factors]
  if len(values) == 1 and not less:
    return values[0]
  product = 1.0
  for value in values:
    if not _is_number(value):
      raise TemplateError(f'{{{expression}}}: {value!r} is no number')
    product *= value
  if not abs(product) < 2**63 or not re.fullmatch('[0-9]{0,9}', less):
    raise TemplateError(
      f'{{{expression}}}: not a product of names and numbers, less a whole number'
    )
  return max(1, round(product)) - int(less or 0)


def _factor(factor: str, names: Mapping[str, Any]) -> Any:
  if _NUMBER.fullmatch(factor):
    return float(factor)
  if factor not in names:
    hint = settings_lib.did_you_mean(factor, names)
    raise TemplateError(
      f'{{{factor[:80]}}}: there is no such flag or value of the grid{hint}'
    )
  return names[factor]


def _is_number(value: Any) -> bool:
  return isinstance(value, int | float) and not isinstance(value, bool)
