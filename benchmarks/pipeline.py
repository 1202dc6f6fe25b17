"""Times what stands around a round: encoding text, batches, evaluation, sampling.

  python -m benchmarks.pipeline                    # a minute or two
  python -m benchmarks.pipeline --text=posts.sqlite --preset=lstm_small
  python -m benchmarks.pipeline --quick            # does it run? in seconds

Each is set beside a reference that does the same work: SentencePiece alone for
encoding, the exported Keras model for evaluation and sampling. They take turns, and
ratios are those of neighbouring runs.
"""

import dataclasses
import json
import pathlib
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tff_textpriv import files, flags, randomness
from tff_textpriv import settings as settings_lib
from tff_textpriv.models import presets
from tff_textpriv.settings import setting

_MAX_WORDS = 24
_SAMPLED_TOKENS = 32
_BATCH_SIZE = 64
_SAMPLED_ROWS = 256


@dataclasses.dataclass(frozen=True)
class PipelineSettings(settings_lib.Settings):
  """What to time."""

  text: str = setting(
    'embedded', 'An SQLite file as prepare_data writes it, or generated users.'
  )
  num_users: int = setting(300, 'Users whose text is used.', low=1)
  preset: str = setting('lstm_tiny', 'The language model.', choices=presets.PRESETS)
  vocab_size: int = setting(2000, 'Size of the vocabulary.', low=300)
  repeats: int = setting(5, 'Timed runs of each.', low=1)
  output: str = setting('build/pipeline.json', 'The file for the results.')
  quick: bool = setting(False, 'Only see whether it runs: few users, once.')


@dataclasses.dataclass(frozen=True)
class Pair:
  """Our way and a reference, with the work that a run of either does.

  Attributes:
    name: What is timed.
    unit: What the work is counted in.
    work: How much of it a run does.
    ours: Does it our way.
    reference: Does it the other way; `None` if there is none.
  """

  name: str
  unit: str
  work: int
  ours: Callable[[], object]
  reference: Callable[[], object] | None = None


def main(settings: PipelineSettings) -> int:
  """Times all, prints rates and ratios, writes JSON."""
  if settings.quick:
    settings = dataclasses.replace(settings, num_users=20, vocab_size=400, repeats=1)
  report = []
  print(f'{"":12} {"ours":>22} {"reference":>12} {"ours/it":>20}')
  for pair in _pairs(settings):
    report.append(_time(pair, settings.repeats))
    print(_line(report[-1]), flush=True)
  output = pathlib.Path(settings.output)
  output.parent.mkdir(parents=True, exist_ok=True)
  files.write_atomically(output, json.dumps(report, indent=2) + '\n')
  print(f'written: {output}')
  return 0


def _time(pair: Pair, repeats: int) -> dict[str, Any]:
  """Runs both in turn, once more than is counted."""
  seconds: dict[str, list[float]] = {'ours': [], 'reference': []}
  for _ in range(repeats + 1):
    seconds['ours'].append(_seconds(pair.ours))
    if pair.reference is not None:
      seconds['reference'].append(_seconds(pair.reference))
  seconds = {name: times[1:] for name, times in seconds.items()}
  return {'name': pair.name, 'unit': pair.unit, 'work': pair.work, 'seconds': seconds}


def _seconds(call: Callable[[], object]) -> float:
  started = time.perf_counter()
  call()
  return time.perf_counter() - started


def _line(result: dict[str, Any]) -> str:
  ours, reference = result['seconds']['ours'], result['seconds']['reference']
  rate = result['work'] / statistics.median(ours)
  line = f'{result["name"]:12} {rate:12,.0f} {result["unit"] + "/s":>9}'
  if not reference:
    return line
  ratios = [a / b for a, b in zip(ours, reference, strict=True)]
  return (
    f'{line} {result["work"] / statistics.median(reference):12,.0f} '
    f'{statistics.median(ratios):8.2f} ({min(ratios):.2f}-{max(ratios):.2f})'
  )


def _pairs(settings: PipelineSettings) -> list[Pair]:
  """Makes everything that is timed; imports TensorFlow."""
  import sentencepiece

  from tff_textpriv.datasets import batching, embedded, encoded, stackoverflow
  from tff_textpriv.models import language_models, sampling
  from tff_textpriv.text import subword
  from tff_textpriv.training import evaluation

  if settings.text == 'embedded':
    users = embedded.build(0, num_train_users=settings.num_users).train
  else:
    users = stackoverflow.load(settings.text).train
  ids = list(users.client_ids)[: settings.num_users]
  texts = [text for user in ids for text in users.read(user)]
  tokenizer = subword.train(texts, settings.vocab_size)
  peer = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.to_bytes())
  clients = encoded.EncodedClients(users, tokenizer)
  posts = {user: clients.posts(user) for user in ids}
  num_tokens = sum(len(post) - 1 for user in ids for post in posts[user])

  rule = batching.WindowRule(_MAX_WORDS, tokenizer.starts_word)

  def make_batches() -> None:
    for user in ids:
      batching.training_batches(
        rule.cut(posts[user]),
        batch_size=16,
        num_epochs=1,
        rng=randomness.generator(0, 'batches', user),
      )

  model = language_models.build(settings.preset, tokenizer.size, tied=True)
  weights = model.initial_weights(0)
  keras = model.to_keras(weights)
  evaluator = evaluation.LanguageModelEvaluator(model, tokenizer, rule)
  all_posts = [post for user in ids for post in posts[user]]
  windows = rule.cut(all_posts)
  sampler = sampling.Sampler(
    model, max_length=_SAMPLED_TOKENS, batch_size=_SAMPLED_ROWS
  )

  def sample() -> np.ndarray:
    return next(sampler.batches(weights, seed=0))

  return [
    Pair(
      'encoding',
      'words',
      sum(len(text.split()) for text in texts),
      lambda: tokenizer.encode(texts),
      lambda: peer.encode(texts),
    ),
    Pair('batches', 'tokens', num_tokens, make_batches),
    Pair(
      'evaluation',
      'tokens',
      num_tokens,
      lambda: evaluator.evaluate(weights, all_posts),
      lambda: _evaluate_with_keras(keras, windows),
    ),
    Pair(
      'sampling',
      'tokens',
      # A row may end early; its padding is not counted.
      int(np.count_nonzero(sample())),
      sample,
      lambda: _sample_with_keras(keras),
    ),
  ]


def _evaluate_with_keras(keras: Any, windows: Sequence[np.ndarray]) -> None:
  """Scores rows in the order in which they come, padded to the longest of a batch."""
  import tensorflow as tf

  for start in range(0, len(windows), _BATCH_SIZE):
    rows = windows[start : start + _BATCH_SIZE]
    tokens = np.zeros((len(rows), max(map(len, rows))), np.int32)
    for row, ids in zip(tokens, rows, strict=True):
      row[: len(ids)] = ids
    logits = keras(tokens[:, :-1])
    tf.nn.sparse_softmax_cross_entropy_with_logits(tokens[:, 1:], logits).numpy()


def _sample_with_keras(keras: Any) -> None:
  """Draws tokens with a model that cannot carry its state: it reads all anew."""
  import tensorflow as tf

  tokens = np.full((_SAMPLED_ROWS, 1), 2, np.int32)
  for _ in range(_SAMPLED_TOKENS):
    drawn = tf.random.categorical(keras(tokens)[:, -1], 1, dtype=tf.int32)
    tokens = np.concatenate([tokens, drawn.numpy()], axis=1)


if __name__ == '__main__':
  flags.run(main, PipelineSettings, __doc__.splitlines()[0])
