"""Reading the commands, the Python and the links out of pages of Markdown."""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

_INLINE = re.compile(r'`([^`\n]+)`')
_LINK = re.compile(r'\[[^\]]*\]\(([^)\s]+)\)')
_COMMAND = re.compile(r'(\$ |\.venv/bin/)?(python -m|make)\b')

# Seconds in which all commands are read, even on a machine that does much else.
_LONGEST = 300

# Reads commands as `python -m` does, up to where they would begin to work: TensorFlow
# cannot be imported, and neither runs nor tools nor processes are started. Whatever is
# not a mistake in the command line, such as a file that is not here, comes later.
_READ_COMMANDS = """
import json, runpy, subprocess, sys
sys.modules |= {'tensorflow': None, 'tensorflow_federated': None}
from tff_textpriv import flags, settings
from tff_textpriv.tasks import base

class Understood(Exception):
  pass

def understood(*arguments, **more):
  raise Understood

def read_flags(main, settings_class, description):
  flags.make(settings_class, flags.parse(sys.argv[1:], [flags.Group('', settings_class)]))

base.run = understood
subprocess.Popen.__init__ = understood
flags.run = read_flags
flags.exit_with_sentences = lambda command, help_page: command()
mistakes = (flags.UsageError, settings.SettingsError, settings.IncompatibleSettingsError)
refused = {}
for words in json.load(sys.stdin):
  sys.argv = words[2:]
  try:
    runpy.run_module(words[2], run_name='__main__', alter_sys=True)
  except mistakes as error:
    refused[' '.join(words)] = str(error)
  except (Understood, flags.HelpRequested, ValueError, OSError):
    pass
  except ImportError as error:
    if error.name is None or not error.name.startswith('tensorflow'):
      refused[' '.join(words)] = str(error)
print(json.dumps(refused))
"""


class Block(NamedTuple):
  """A code block, fenced or indented.

  Attributes:
    page: The file that it stands in.
    line: The number of its first line.
    language: What the fence says, or nothing.
    text: The code, without fences and without indentation.
  """

  page: pathlib.Path
  line: int
  language: str
  text: str

  @property
  def commands(self) -> list[str]:
    """The commands that it shows, lines that go on joined; output is left out."""
    lines = self.text.replace('\\\n', ' ').splitlines()
    return [line.removeprefix('$ ') for line in lines if _COMMAND.match(line)]


def blocks(page: pathlib.Path) -> list[Block]:
  """Returns a page's code blocks."""
  found = []
  lines = page.read_text(encoding='utf-8').splitlines()
  number = 0
  while number < len(lines):
    first = number
    if lines[number].startswith('```'):
      end = lines.index('```', number + 1)
      code = lines[number + 1 : end]
      found.append(
        Block(page, first + 1, lines[number].removeprefix('```'), '\n'.join(code))
      )
      number = end
    elif lines[number].startswith('    ') and (first == 0 or not lines[first - 1]):
      while number < len(lines) and (
        lines[number].startswith('    ') or not lines[number]
      ):
        number += 1
      code = [line.removeprefix('    ') for line in lines[first:number]]
      found.append(Block(page, first + 1, '', '\n'.join(code)))
      continue
    number += 1
  return found


def prose(page: pathlib.Path) -> str:
  """Returns a page without its code blocks."""
  text = re.sub(
    r'^```.*?^```$', '', page.read_text(encoding='utf-8'), flags=re.M | re.S
  )
  return re.sub(r'(?<=\n\n)(    .*\n+)+', '', text)


def inline_code(page: pathlib.Path) -> list[str]:
  """Returns what stands between single backquotes."""
  return _INLINE.findall(prose(page))


def commands(page: pathlib.Path) -> list[str]:
  """Returns all commands of a page: those of its blocks and those in its text."""
  inline = [code for code in inline_code(page) if _COMMAND.match(code)]
  return [*(command for block in blocks(page) for command in block.commands), *inline]


def split(command: str) -> list[str]:
  """Splits a command into words, without comments and without `...`."""
  words = shlex.split(command, comments=True)
  return [word for word in words if '...' not in word]


def links(page: pathlib.Path) -> list[str]:
  """Returns the targets of a page's links and pictures."""
  return _LINK.findall(prose(page))


def anchors(page: pathlib.Path) -> Iterator[str]:
  """Yields the anchors of a page's headings, as GitHub makes them."""
  for line in page.read_text(encoding='utf-8').splitlines():
    if line.startswith('#'):
      title = line.lstrip('#').strip().lower()
      yield re.sub(r'[^\w\- ]', '', title).replace(' ', '-')


def refused(commands: list[list[str]], folder: pathlib.Path) -> dict[str, str]:
  """Returns the `python -m` commands that are not understood, and what is said of them.

  Args:
    commands: The commands, as words.
    folder: Where they are typed, with the package in it.
  """
  done = subprocess.run(
    [sys.executable, '-c', _READ_COMMANDS],
    input=json.dumps(commands),
    capture_output=True,
    text=True,
    cwd=folder,
    timeout=_LONGEST,
    env={**os.environ, 'PYTHONPATH': str(folder)},
  )
  assert done.returncode == 0, done.stderr
  return json.loads(done.stdout.splitlines()[-1])
