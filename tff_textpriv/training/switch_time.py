"""When to change the tokenizer: as soon as two samples in a row ask for the same one.

Every so many rounds the model is sampled a little, and a tokenizer is learnt from what it
writes. Early on the model still learns words, and tokenizers of two checks have different
pieces. Once they agree, more training would change the tokenizer little, and the run
switches. All of it is post-processing of a private model.
"""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tff_textpriv import randomness
from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes import subword_resample
from tff_textpriv.text import forms, subword, tokenizers
from tff_textpriv.training import (
  experiment,
  language_workbench,
  phases,
  resampling,
  tokenizer_sources,
)

# Where a tokenizer's record has what the check before its phase found.
CHECK = 'switch_check'


def is_searched(chosen: experiment.Experiment) -> bool:
  """Tells whether a run finds the time of its switch itself."""
  settings = chosen.algorithm_settings
  return settings.learns_tokenizer and settings.switch == subword_resample.AUTO


def check_mechanism(chosen: experiment.Experiment, users: Sequence[str]) -> None:
  """Refuses to search under a mechanism whose every phase starts anew."""
  if not is_searched(chosen):
    return
  if phases.lay_out(chosen, users)[0].mechanism(chosen).starts_anew:
    raise settings_lib.IncompatibleSettingsError(
      f'--switch={subword_resample.AUTO} checks the tokenizer every few rounds, and '
      f'--mechanism={chosen.algorithm.mechanism} would start its noise anew at each '
      'check; name the round with --resample_rounds'
    )


def is_settled(record: tokenizer_sources.TokenizerRecord) -> bool:
  """Tells whether a tokenizer is the one that the run has switched to."""
  return record.source == 'sample'


def unchanged(
  record: tokenizer_sources.TokenizerRecord, index: int, check: Mapping[str, Any] | None
) -> tokenizer_sources.TokenizerRecord:
  """Returns the record of a phase that goes on with the tokenizer of the one before."""
  facts = {name: fact for name, fact in record.facts.items() if name != CHECK}
  if check is not None:
    facts[CHECK] = check
  return dataclasses.replace(record, index=index, facts=facts)


def check(
  bench: language_workbench.LanguageWorkbench,
  weights: Sequence[np.ndarray],
  chosen: experiment.Experiment,
  before: tokenizer_sources.TokenizerRecord,
  round_number: int,
  form: forms.TextForm,
) -> dict[str, Any]:
  """Samples the model and compares with the check before.

  Args:
    bench: The model and its tokenizer.
    weights: The model's weights.
    chosen: The experiment.
    before: The record of the phase that has ended; it has the check before it.
    round_number: The rounds behind the weights.
    form: That of users' text.

  Returns:
    As JSON values: `round`; `agreement`, `None` at the first check; `switches`, whether
    the run changes its tokenizer now; `piece_counts`, for the next check.
  """
  settings = chosen.algorithm_settings
  # Checks that share their draws would agree by that alone.
  rng = randomness.generator(chosen.run.seed, 'switch check', round_number)
  sampled = resampling.sample(
    bench,
    weights,
    settings,
    num_tokens=settings.switch_sample_tokens,
    seed=int(rng.integers(2**31)),
    form=form,
  )
  try:
    candidate = subword.train(sampled.texts, chosen.task_settings.vocab_size)
  except tokenizers.TokenizerError as error:
    raise tokenizers.TokenizerError(
      f'{error}; --switch_sample_tokens draws more of it for a check'
    ) from error
  counts = piece_counts(candidate, sampled.texts)
  earlier = before.facts.get(CHECK)
  found = None if earlier is None else agreement(counts, earlier['piece_counts'])
  return {
    'round': round_number,
    'agreement': found,
    'switches': found is not None and found >= settings.switch_agreement,
    'piece_counts': counts,
  }


def piece_counts(
  tokenizer: subword.SubwordTokenizer, texts: Sequence[str]
) -> dict[str, int]:
  """Counts the pieces of texts; bytes, which all tokenizers have, do not count."""
  ids = np.concatenate(tokenizer.encode(texts))
  counts = np.bincount(ids, minlength=tokenizer.size)
  return {
    piece: int(counts[number])
    for number, piece in enumerate(tokenizer.pieces)
    if number >= tokenizers.NUM_CONTROL_IDS + subword.NUM_BYTES and counts[number]
  }


def agreement(one: Mapping[str, int], other: Mapping[str, int]) -> float:
  """Returns how far two tokenizers agree, from 0 to 1.

  Of all tokens of a sample, the share whose pieces the other tokenizer uses too: the
  smaller one of both ways. Pieces count by their frequency, since rare ones come and go by
  chance.

  Args:
    one: How often each piece occurs in a tokenizer's own sample.
    other: The same of the other one.
  """
  shares = [
    sum(count for piece, count in ours.items() if piece in theirs)
    / max(1, sum(ours.values()))
    for ours, theirs in ((one, other), (other, one))
  ]
  return min(shares)


def say(found: Mapping[str, Any]) -> str:
  """Says what a check found, in a line."""
  if found['agreement'] is None:
    return f'first look at the tokenizer after round {found["round"]}'
  verdict = 'the run switches' if found['switches'] else 'too little to switch'
  return (
    f'tokenizers of two checks agree by {found["agreement"]:.1%} after round '
    f'{found["round"]}: {verdict}'
  )


def section(last_index: int, folder: pathlib.Path) -> list[str]:
  """Writes the lineage's lines on the checks; none where there were none."""
  found = []
  for index in range(1, last_index + 1):
    record = tokenizer_sources.read_record(folder, index)
    if record is not None and CHECK in record.facts:
      found.append(record.facts[CHECK])
  if not found:
    return []
  rows = [
    f'| {each["round"]} '
    f'| {"" if each["agreement"] is None else format(each["agreement"], ".1%")} '
    f'| {"yes" if each["switches"] else "no"} |'
    for each in found
  ]
  end = (
    [] if found[-1]['switches'] else ['', 'No two checks agreed: no switch was made.']
  )
  return [
    '',
    '## When to switch',
    '',
    'Agreement is the share of a check’s sampled tokens whose pieces the tokenizer of',
    'the check before uses too, or the other way round, whichever is smaller.',
    '',
    '| after round | agreement | switch |',
    '| --- | --- | --- |',
    *rows,
    *end,
  ]
