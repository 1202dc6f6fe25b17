"""Learning the next tokenizer from the model: sample, fit, remap.

Nothing here is given users' text. The model was trained under differential
privacy, so that all of this is post-processing and costs nothing.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
import tensorflow_federated as tff

from tff_textpriv import files
from tff_textpriv.iterative_processes import subword_resample, tokenizer_change
from tff_textpriv.models import sampling
from tff_textpriv.privacy.mechanism import Mechanism
from tff_textpriv.text import appended, forms, remap, statistics, subword
from tff_textpriv.training import (
  language_workbench,
  output_bias,
  tokenizer_sources,
)


def learn_tokenizer(
  bench: language_workbench.LanguageWorkbench,
  weights: Sequence[np.ndarray],
  settings: subword_resample.SubwordResampleSettings,
  *,
  index: int,
  vocab_size: int,
  seed: int,
  form: forms.TextForm,
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
    form: That of users' text, in whose letters the samples are read.
    folder: The run's folder; the samples are written there.
  """
  sampled = sample(
    bench, weights, settings, num_tokens=settings.sample_tokens, seed=seed, form=form
  )
  files.write_atomically(samples_file(folder, index), '\n'.join(sampled.texts) + '\n')
  tokens_per_second = sampled.num_tokens / sampled.seconds
  print(
    f'sampled {sampled.num_tokens:,} tokens in {len(sampled.texts):,} texts, of which '
    f'{sampled.num_cut:,} were cut off, and {sampled.num_empty:,} empty ones '
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
    'cut_texts': sampled.num_cut,
    'empty_texts': sampled.num_empty,
    'tokens_per_second': round(tokens_per_second),
    'new_pieces': remap.new_pieces(tokenizer, _subwords(bench), 50),
    'word_counts': dict(statistics.word_counts(sampled.texts)),
    **growth,
  }
  return tokenizer_sources.TokenizerRecord(index, 'sample', tokenizer, facts)


def sample(
  bench: language_workbench.LanguageWorkbench,
  weights: Sequence[np.ndarray],
  settings: subword_resample.SubwordResampleSettings,
  *,
  num_tokens: int,
  seed: int,
  form: forms.TextForm,
) -> sampling.SampledText:
  """Samples the model; texts are as long as training examples, unless flags say else.

  Args:
    bench: The model and its tokenizer.
    weights: The model's weights.
    settings: How to sample.
    num_tokens: How much.
    seed: Decides the samples.
    form: That of users' text, in whose letters the samples are read.
  """
  return sampling.sample_texts(
    bench.model,
    weights,
    lambda ids: form.fold(bench.tokenizer.decode(ids)),
    num_tokens=num_tokens,
    max_length=settings.sample_max_length or bench.windows.longest,
    temperature=settings.sample_temperature,
    seed=seed,
  )


def samples_file(folder: pathlib.Path, index: int) -> pathlib.Path:
  """Returns where the text is kept that a phase's tokenizer was learnt from."""
  return folder / 'samples' / f'{index}.txt'


def read_sample(folder: pathlib.Path, index: int) -> list[str]:
  """Reads the texts that the tokenizer of a phase was trained on."""
  return samples_file(folder, index).read_text(encoding='utf-8').splitlines()


@dataclasses.dataclass(frozen=True)
class Remap:
  """Carries a model from one tokenizer to another.

  Attributes:
    old: The model and tokenizer before.
    new: Those after.
    sample: The texts that the new tokenizer was trained on.
  """

  old: language_workbench.LanguageWorkbench
  new: language_workbench.LanguageWorkbench
  sample: Sequence[str]

  @functools.cached_property
  def _matrix(self) -> scipy.sparse.csr_matrix:
    return remap.remap_matrix(_subwords(self.new), _subwords(self.old))

  def averaged(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Carries arrays of the shapes of the weights over, by the map alone."""
    return remap.remap_weights(arrays, self.old.model.vocabulary_axes, self._matrix)

  def weights(self, old_weights: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Carries weights over: by the map, and the output bias by the sample's frequencies."""
    examples = self.new.windows.cut(self.new.tokenizer.encode(self.sample))
    return output_bias.fitted(self.new.model, self.averaged(old_weights), examples)


def carry_over(
  state: Any,
  process: tff.learning.templates.LearningProcess,
  mechanism: Mechanism,
  change: Remap,
) -> Any:
  """Carries a server state from one tokenizer's model to another's.

  Args:
    state: The state at the end of a phase.
    process: The process of the next one.
    mechanism: The mechanism of both.
    change: From which model to which.
  """
  fresh = process.initialize()
  weights = change.weights(state.global_model_weights.trainable)
  carried = tokenizer_change.carry_over(
    state, fresh, change.old.model, weights, change.averaged
  )
  if mechanism.starts_anew:
    return carried._replace(aggregator=fresh.aggregator)
  return carried


def remap_effect(
  change: Remap, old_weights: Sequence[np.ndarray], seed: int
) -> dict[str, float]:
  """Measures, on validation users, what the remap keeps of the model.

  Args:
    change: From which model to which.
    old_weights: The weights before.
    seed: Decides the fresh embeddings of the comparison.

  Returns:
    Perplexity per word before; right after the remap; with the mean of the pieces' output
    biases in place of those that fit the sample; and with fresh embeddings and output
    rows instead of remapped ones.
  """
  old, new = change.old, change.new
  remapped = change.weights(old_weights)
  fresh = [
    initial if index in old.model.vocabulary_axes else kept
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
    'perplexity_with_averaged_bias': perplexity(new, change.averaged(old_weights)),
    'perplexity_with_fresh_embeddings': perplexity(new, fresh),
  }


def _subwords(bench: language_workbench.LanguageWorkbench) -> subword.SubwordTokenizer:
  if not isinstance(bench.tokenizer, subword.SubwordTokenizer):
    raise TypeError(f'remapping needs sub-words, not {bench.tokenizer.kind!r} tokens')
  return bench.tokenizer
