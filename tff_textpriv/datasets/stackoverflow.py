"""StackOverflow in the SQLite layout of TFF; any text, written so.

An example is one sentence, with the features tokens, creation_date, title, score, tags
and type. How the file is read is said in `client_sqlite`.
"""

import http.client
import lzma
import os
import sqlite3
import tempfile
from collections.abc import Iterable, Mapping

from tff_textpriv.datasets import client_sqlite, clients
from tff_textpriv.text import forms

# Train, validation and test users, in this order.
SPLITS = ('train', 'heldout', 'test')

_FILE_NAME = 'stackoverflow.sqlite'


def load(path: str) -> clients.FederatedText:
  """Opens a file in TFF's SQLite layout.

  In TFF's StackOverflow the held-out users are people of their own, but the test
  split holds later posts of users who are mostly in the train split, too. Here
  evaluation is on users who never took part in training, so train users are
  left out of both, and held-out users out of the test users.

  Its sentences are in lower case, with punctuation as words of its own, and so are those
  that `prepare_data` writes: that is the form of this layout.

  Returns:
    The splits train, heldout and test as train, validation and test users,
    without public text.

  Raises:
    DataError: If the file is missing, truncated or of another kind, or if no
      user is left to evaluate on.
  """
  client_sqlite.check(path)
  ids = client_sqlite.example_counts(path)
  groups: list[clients.ClientText] = []
  seen: set[str] = set()
  for split in SPLITS:
    if split not in ids:
      raise clients.DataError.in_file(
        path,
        f'the split {split!r} has no users; {client_sqlite.EXPECTED} and the splits '
        f'{", ".join(SPLITS)}',
      )
    unseen = [client_id for client_id in ids[split] if client_id not in seen]
    if not unseen:
      raise clients.DataError.in_file(
        path,
        f'all {len(ids[split])} users of the split {split!r} are in another split, '
        'too; evaluation needs users who are in no other split',
      )
    seen.update(unseen)
    groups.append(client_sqlite.SqlClientText(path, split, unseen))
  train, validation, test = groups
  return clients.FederatedText(
    'stackoverflow', train, validation, test, form=forms.SENTENCES
  )


def write(path: str, texts_by_split: Mapping[str, Mapping[str, Iterable[str]]]) -> None:
  """Writes texts in TFF's SQLite layout, for TFF's tools and for `load`.

  The other features of an example (dates, titles, tags ...) are written empty.
  The file appears only once it is complete, and is its owner's alone: it holds
  users' text.

  Args:
    path: The file to write; an existing one is replaced.
    texts_by_split: The texts of each user of each split. To be read back with
      `load`, the splits must be train, heldout and test.
  """
  with client_sqlite.create(path) as writer:
    for split, texts_by_client in texts_by_split.items():
      for client_id, texts in texts_by_client.items():
        for text in texts:
          writer.add(split, client_id, text)


def download(cache_dir: str) -> str:
  """Downloads StackOverflow with TFF's own loader, unless it is there already.

  TFF's loader takes a half-downloaded file for a complete one at the next call;
  here a file enters `cache_dir` only after its download has succeeded.

  Args:
    cache_dir: Where the file is kept.

  Returns:
    The path of the SQLite file, for `load`.

  Raises:
    DataError: If the download fails.
  """
  path = os.path.join(cache_dir, _FILE_NAME)
  if os.path.exists(path):
    return path
  # Takes many seconds to import, and is needed for nothing else here.
  import tensorflow_federated as tff

  os.makedirs(cache_dir, exist_ok=True)
  with tempfile.TemporaryDirectory(dir=cache_dir) as scratch:
    scratch_path = os.path.join(scratch, _FILE_NAME)
    try:
      tff.simulation.datasets.stackoverflow.load_data(cache_dir=scratch)
      client_sqlite.check_header(scratch_path)
    except (
      OSError,
      EOFError,
      ValueError,
      http.client.HTTPException,
      lzma.LZMAError,
      sqlite3.Error,
    ) as error:
      raise clients.DataError.in_file(
        path,
        f'the download of StackOverflow failed ({error}); check the network and '
        'try again, or name a file that you have',
      ) from error
    os.replace(scratch_path, path)
  return path
