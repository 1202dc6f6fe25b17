"""Learning the next tokenizer from the model: sample, fit, remap.

Nothing here is given users' text. The model was trained under differential
privacy, so that all of this is post-processing and costs nothing.
"""

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow_federated as tff

from tff_textpriv import files
from tff_textpriv.iterative_processes import subword_resample, tokenizer_change
from tff_textpriv.models import sampling
from tff_textpriv.privacy.mechanism import Mechanism
from tff_textpriv.text import appended, remap, statistics, subword
from tff_textpriv.training import language_workbench, tokenizer_sources


def learn_tokenizer(
  bench: language_workbench.LanguageWorkbench,
  weights: Sequence[np.ndarray],
  settings: subword_resample.SubwordResampleSettings,
  *,
  index: int,
  vocab_size: int,
  seed: int,
  folder: pathlib.Path,
) -> tokenizer_sources.TokenizerRecord:
  """Samples the model and trains a tokenizer on what it writes.

  Args:
    bench: The model and its tokenizer.
    weights: The model's weights.
    settings: How much to sample, and how.
    index: The phase that the tokenizer is for.
    vocab_size: The new vocabulary's size.
    seed: Decides the samples.
    folder: The run's folder; the samples are written there.
  """
  sampled = sampling.sample_texts(
    bench.model,
    weights,
    bench.tokenizer.decode,
    num_tokens=settings.sample_tokens,
    max_length=settings.sample_max_length,
    temperature=settings.sample_temperature,
    seed=seed,
  )
  files.write_atomically(samples_file(folder, index), '\n'.join(sampled.texts) + '\n')
  tokens_per_second = sampled.num_tokens / sampled.seconds
  print(
    f'sampled {sampled.num_tokens:,} tokens in {len(sampled.texts):,} texts '
    f'({tokens_per_second:,.0f} tokens/s)'
  )
  tokenizer = subword.train(sampled.texts, vocab_size)
  growth = {}
  if settings.append_pieces:
    made = appended.append(_subwords(bench), tokenizer, settings.append_pieces)
    tokenizer, growth = made.tokenizer, {'appended': made.facts}
  facts = {
    'sampled_tokens': sampled.num_tokens,
    'sampled_texts': len(sampled.texts),
    'tokens_per_second': round(tokens_per_second),
    'new_pieces': remap.new_pieces(tokenizer, _subwords(bench), 50),
    'word_counts': dict(statistics.word_counts(sampled.texts)),
    **growth,
  }
  return tokenizer_sources.TokenizerRecord(index, 'sample', tokenizer, facts)


def samples_file(folder: pathlib.Path, index: int) -> pathlib.Path:
  """Returns where the text is kept that a phase's tokenizer was learnt from."""
  return folder / 'samples' / f'{index}.txt'


def carry_over(
  state: Any,
  process: tff.learning.templates.LearningProcess,
  mechanism: Mechanism,
  old: language_workbench.LanguageWorkbench,
  new: language_workbench.LanguageWorkbench,
) -> Any:
  """Carries a server state from one tokenizer's model to another's.

  Args:
    state: The state at the end of a phase.
    process: The process of the next one.
    mechanism: The mechanism of both.
    old: The model and tokenizer before.
    new: Those after.
  """
  matrix = remap.remap_matrix(_subwords(new), _subwords(old))
  fresh = process.initialize()
  carried = tokenizer_change.carry_over(state, fresh, old.model, matrix)
  if mechanism.starts_anew:
    return carried._replace(aggregator=fresh.aggregator)
  return carried


def remap_effect(
  old: language_workbench.LanguageWorkbench,
  new: language_workbench.LanguageWorkbench,
  old_weights: Sequence[np.ndarray],
  seed: int,
) -> dict[str, float]:
  """Measures, on validation users, what the remap keeps of the model.

  Args:
    old: The model and tokenizer before.
    new: Those after.
    old_weights: The weights before.
    seed: Decides the fresh embeddings of the comparison.

  Returns:
    Perplexity per word before; right after the remap; and with fresh embeddings
    and output rows instead of remapped ones.
  """
  matrix = remap.remap_matrix(_subwords(new), _subwords(old))
  axes = old.model.vocabulary_axes
  remapped = remap.remap_weights(old_weights, axes, matrix)
  fresh = [
    initial if index in axes else kept
    for index, (initial, kept) in enumerate(
      zip(new.model.initial_weights(seed), remapped, strict=True)
    )
  ]

  def perplexity(
    bench: language_workbench.LanguageWorkbench, weights: Sequence[np.ndarray]
  ) -> float:
    return bench.evaluate(weights, 'validation')['word_perplexity']

  return {
    'perplexity_before': perplexity(old, old_weights),
    'perplexity_after_remap': perplexity(new, remapped),
    'perplexity_with_fresh_embeddings': perplexity(new, fresh),
  }


def _subwords(bench: language_workbench.LanguageWorkbench) -> subword.SubwordTokenizer:
  if not isinstance(bench.tokenizer, subword.SubwordTokenizer):
    raise TypeError(f'remapping needs sub-words, not {bench.tokenizer.kind!r} tokens')
  return bench.tokenizer
