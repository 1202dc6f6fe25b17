"""Users' texts as token ids, encoded once and cached on disk.

Text is encoded before it enters a TFF computation: the worker process does not
know tensorflow-text's ops, and encoding the same user every round is waste.
"""

import os
import pathlib
import sqlite3
from collections.abc import Sequence

import numpy as np

from tff_textpriv.datasets import clients
from tff_textpriv.text import tokenizers

_INSERT = 'INSERT OR REPLACE INTO posts VALUES (?, ?, ?)'


class EncodedClients:
  """The posts of each user as token ids.

  With a cache folder, a user's ids are written to an SQLite file on first use and
  read from there afterwards, by this run and by later ones. The file holds users'
  text in another form and is readable by its owner only.
  """

  def __init__(
    self,
    texts: clients.ClientText,
    tokenizer: tokenizers.Tokenizer,
    *,
    max_words_per_user: int | None = None,
    cache_dir: pathlib.Path | None = None,
  ):
    """Prepares encoding; no text is read yet.

    Args:
      texts: The users and their texts.
      tokenizer: What encodes them.
      max_words_per_user: After how many words a user's text is cut off, the same words
        for every tokenizer; `None` keeps all.
      cache_dir: The folder of the cache file; `None` encodes anew at each call.
    """
    self._texts = texts
    self._tokenizer = tokenizer
    self._max_words = max_words_per_user
    self._cache = None
    if cache_dir is not None:
      key = clients.short_hash(
        [texts.fingerprint, tokenizer.fingerprint, 'words', max_words_per_user]
      )
      self._cache = _TokenCache(cache_dir / f'encoded_{key}.sqlite')

  @property
  def client_ids(self) -> Sequence[str]:
    """The ids of all users."""
    return self._texts.client_ids

  def posts(self, client_id: str) -> list[np.ndarray]:
    """Returns a user's posts, each int32 [length], BOS first and EOS last."""
    if self._cache is not None:
      cached = self._cache.get(client_id, self._tokenizer.size)
      if cached is not None:
        return cached
    posts = self._tokenizer.encode(self._texts.read(client_id))
    if self._max_words is not None:
      posts = _cut(posts, self._max_words, self._tokenizer.starts_word)
    if self._cache is not None:
      self._cache.put(client_id, posts)
    return posts


def _cut(
  posts: Sequence[np.ndarray], max_words: int, starts_word: np.ndarray
) -> list[np.ndarray]:
  """Keeps the first `max_words` words; the last post may lose its end."""
  kept, left = [], max_words
  for post in posts:
    if left == 0:
      break
    starts = np.flatnonzero(starts_word[post])
    kept.append(post[: starts[left]] if len(starts) > left else post)
    left -= min(left, len(starts))
  return kept


class _TokenCache:
  """A map from users to their encoded posts in one SQLite file."""

  def __init__(self, path: pathlib.Path):
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    self._path = path
    try:
      self._connection = self._open(path)
    except sqlite3.DatabaseError:
      self._renew()

  def _renew(self) -> None:
    """Makes a cache that cannot be read again; the texts are still there."""
    self._path.unlink(missing_ok=True)
    self._connection = self._open(self._path)

  @staticmethod
  def _open(path: pathlib.Path) -> sqlite3.Connection:
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    # One thread at a time uses it, but not always the same.
    connection = sqlite3.connect(
      path, timeout=60, isolation_level=None, check_same_thread=False
    )
    # A cache may lose its last users in a power cut, and gains much speed.
    connection.execute('PRAGMA synchronous=OFF')
    connection.execute(
      'CREATE TABLE IF NOT EXISTS posts'
      ' (client_id TEXT PRIMARY KEY, lengths BLOB, tokens BLOB)'
    )
    return connection

  def get(self, client_id: str, num_ids: int) -> list[np.ndarray] | None:
    """Returns a user's posts, or `None` if they are not cached, or damaged.

    Args:
      client_id: The user.
      num_ids: The size of the vocabulary.
    """
    try:
      row = self._connection.execute(
        'SELECT lengths, tokens FROM posts WHERE client_id = ?', (client_id,)
      ).fetchone()
    except sqlite3.DatabaseError as error:
      if _is_busy(error):
        raise
      self._renew()
      return None
    if row is None:
      return None
    try:
      lengths, tokens = (np.frombuffer(blob, np.int32) for blob in row)
    except (TypeError, ValueError):
      return None
    is_whole = lengths.sum() == len(tokens) and (lengths >= 0).all()
    if not is_whole or (tokens < 0).any() or (tokens >= num_ids).any():
      return None
    return np.split(tokens, np.cumsum(lengths)[:-1]) if len(lengths) else []

  def put(self, client_id: str, posts: Sequence[np.ndarray]) -> None:
    """Keeps a user's posts."""
    lengths = np.array([len(post) for post in posts], np.int32)
    tokens = np.concatenate(posts) if posts else np.zeros(0, np.int32)
    row = (client_id, lengths.tobytes(), tokens.tobytes())
    try:
      self._connection.execute(_INSERT, row)
    except sqlite3.DatabaseError as error:
      if _is_busy(error):
        raise
      self._renew()
      self._connection.execute(_INSERT, row)


def _is_busy(error: sqlite3.DatabaseError) -> bool:
  """Tells whether a file is well, but locked, full or not to be written."""
  code = getattr(error, 'sqlite_errorcode', None)
  damaged = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
  return code is None or code & 0xFF not in damaged
