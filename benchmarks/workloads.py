"""What every contender trains in a round: the same weights, batches and steps.

A workload is written to a folder, from which contenders read it in environments of
their own; this module needs NumPy and nothing else, and the functions that make
workloads our package, though not TensorFlow.
"""

import dataclasses
import json
import pathlib
from collections.abc import Sequence

import numpy as np

PAD_ID = 0
CLIENT_LEARNING_RATE = 0.5
# Below the length of every difference, so that all are clipped.
CLIP = 0.01
# So little that all contenders still end with the same weights; it takes as long
# to draw as any other.
NOISE_MULTIPLIER = 1e-7
BATCH_SIZE = 16
SEED = 1


@dataclasses.dataclass(frozen=True)
class Workload:
  """One round of federated averaging of an LSTM language model.

  The model: embedding [vocab, width], an LSTM of `hidden_size`, a projection to
  `width`, an untied output layer. Clients make one pass of SGD; the mean of their
  differences is added to the weights.

  Attributes:
    name: The workload's name.
    preset: Our name of the model.
    private: Whether differences are clipped and the sum is noised.
    max_words: Words in a row, at most.
    weights: The initial weights in our order, which is that of Keras.
    posts: Of each client, its sentences: token ids, each int32 [length].
    batches: Of each client its batches, of each batch its rows: the same
      sentences, cut and shuffled as our training does.
  """

  name: str
  preset: str
  private: bool
  max_words: int
  weights: list[np.ndarray]
  posts: list[list[np.ndarray]]
  batches: list[list[list[np.ndarray]]]

  @property
  def vocab_size(self) -> int:
    """The number of token ids."""
    return self.weights[0].shape[0]

  @property
  def max_length(self) -> int:
    """Predictions in a row, at most."""
    return max(len(row) - 1 for client in self.batches for b in client for row in b)

  @property
  def num_tokens(self) -> int:
    """The tokens that are predicted in a round."""
    return sum(len(row) - 1 for client in self.batches for b in client for row in b)

  @property
  def num_steps(self) -> int:
    """The steps of SGD in a round, of all clients together."""
    return sum(map(len, self.batches))

  @property
  def num_padded_tokens(self) -> int:
    """The predictions in a round if each batch is padded to its longest row."""
    return sum(
      len(batch) * (max(map(len, batch)) - 1) for c in self.batches for batch in c
    )

  def save(self, folder: pathlib.Path) -> None:
    """Writes the workload; `load` reads it."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = {
      field.name: getattr(self, field.name)
      for field in dataclasses.fields(self)
      if field.name != 'weights'
    }
    (folder / 'workload.json').write_text(json.dumps(facts, default=np.ndarray.tolist))
    save_weights(folder / 'weights.npz', self.weights)


def load(folder: pathlib.Path) -> Workload:
  """Reads what `Workload.save` wrote."""
  facts = json.loads((folder / 'workload.json').read_text())
  facts['posts'] = [_arrays(posts) for posts in facts['posts']]
  facts['batches'] = [[_arrays(rows) for rows in client] for client in facts['batches']]
  return Workload(weights=load_weights(folder / 'weights.npz'), **facts)


def _arrays(sentences: Sequence[Sequence[int]]) -> list[np.ndarray]:
  return [np.asarray(ids, np.int32) for ids in sentences]


def save_weights(path: pathlib.Path, weights: Sequence[np.ndarray]) -> None:
  """Writes weights in order."""
  np.savez(path, *weights)


def load_weights(path: pathlib.Path) -> list[np.ndarray]:
  """Reads weights in order."""
  with np.load(path) as arrays:
    return [arrays[f'arr_{i}'] for i in range(len(arrays.files))]


def pad(
  rows: Sequence[np.ndarray], length: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
  """Stacks rows into inputs and targets, int32 [batch, time], padded at the end.

  Args:
    rows: Token ids, each int32 [2 or more].
    length: Predictions in a row; by default those of the longest.

  Returns:
    Inputs and targets.
  """
  length = max(map(len, rows)) - 1 if length is None else length
  tokens = np.full((len(rows), length + 1), PAD_ID, np.int32)
  for row, ids in zip(tokens, rows, strict=True):
    row[: len(ids)] = ids
  targets = tokens[:, 1:]
  return np.where(targets == PAD_ID, PAD_ID, tokens[:, :-1]), targets.copy()


def training_batches(
  posts: Sequence[np.ndarray], client: int, max_words: int, vocab_size: int
) -> list[tuple[np.ndarray, np.ndarray]]:
  """Makes a client's batches as our training does; part of what is timed."""
  from tff_textpriv import randomness
  from tff_textpriv.datasets import batching

  # Every token counts as a word, the end of a post too.
  rule = batching.WindowRule(max_words, np.ones(vocab_size, bool))
  return batching.training_batches(
    rule.cut(posts),
    batch_size=BATCH_SIZE,
    num_epochs=1,
    rng=randomness.generator(SEED, 'batches', 1, str(client)),
  )


def make(
  name: str,
  preset: str,
  vocab_size: int,
  posts: list[list[np.ndarray]],
  *,
  max_words: int,
  private: bool,
) -> Workload:
  """Makes a workload of clients' sentences.

  Args:
    name: The workload's name.
    preset: Our name of the model, an LSTM of one layer.
    vocab_size: The number of token ids.
    posts: Of each client, its sentences.
    max_words: Where sentences are cut.
    private: Whether to clip and to noise.

  Returns:
    The workload, with its batches and initial weights.
  """
  batches = [
    [
      _rows(*batch[:2])
      for batch in training_batches(client_posts, i, max_words, vocab_size)
    ]
    for i, client_posts in enumerate(posts)
  ]
  return Workload(
    name, preset, private, max_words, _weights(preset, vocab_size), posts, batches
  )


def synthetic_posts(num_clients: int, vocab_size: int) -> list[list[np.ndarray]]:
  """Draws 32 sentences of 20 predictions for each client."""
  rng = np.random.default_rng(SEED)
  tokens = rng.integers(4, vocab_size, (num_clients, 32, 21), np.int32)
  return [list(sentences) for sentences in tokens]


def real_posts(
  path: str, num_clients: int, vocab_size: int, max_words: int
) -> list[list[np.ndarray]]:
  """Reads users of an SQLite file in the StackOverflow layout, as words.

  Args:
    path: The file.
    num_clients: How many users to draw.
    vocab_size: The size of the vocabulary: the file's most frequent words.
    max_words: Where to cut a user's text off.

  Returns:
    Of each user the sentences, token ids.
  """
  from tff_textpriv.datasets import encoded, stackoverflow
  from tff_textpriv.text import words

  users = stackoverflow.load(path).train
  rng = np.random.default_rng(SEED)
  some = rng.choice(len(users.client_ids), min(1000, len(users.client_ids)), False)
  texts = (text for i in some for text in users.read(users.client_ids[i]))
  tokenizer = words.train(texts, vocab_size)
  data = encoded.EncodedClients(users, tokenizer, max_words_per_user=max_words)
  return [data.posts(users.client_ids[i]) for i in some[:num_clients]]


def _rows(inputs: np.ndarray, targets: np.ndarray) -> list[np.ndarray]:
  """Takes the padding off a batch again."""
  lengths = (targets != PAD_ID).sum(axis=1)
  return [
    np.append(inputs[i, :length], targets[i, length - 1])
    for i, length in enumerate(lengths)
    if length
  ]


def _weights(preset: str, vocab_size: int) -> list[np.ndarray]:
  """Draws the initial weights of a one-layer LSTM language model, untied."""
  from tff_textpriv.models import initializers, presets

  width, hidden_size = presets.SIZES[preset].untied
  rng = np.random.default_rng(SEED)
  return [
    initializers.embedding(rng, vocab_size, width),
    *initializers.lstm(rng, width, hidden_size),
    *initializers.dense(rng, hidden_size, width),
    *initializers.dense(rng, width, vocab_size),
  ]
