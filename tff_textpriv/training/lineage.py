"""The lineage of a run's tokenizers: what each came from, cost and is worth."""

import dataclasses
import json
import pathlib

from tff_textpriv import files
from tff_textpriv.datasets import clients
from tff_textpriv.text import remap, statistics, subword
from tff_textpriv.training import (
  experiment,
  phases,
  server_training,
  switch_time,
  tokenizer_sources,
  user_figures,
)

# Users whose text stands for the real data in the KL divergence, at most.
_MAX_REFERENCE_USERS = 5000

_ORIGINS = {
  'public': 'public text',
  'oracle': 'the users’ own text (no privacy)',
  'train': 'the training text (no privacy)',
  'heavy_hitters': 'words that users reported under local DP, and public text',
  'sample': 'text sampled from the private model of the phase before',
}


@dataclasses.dataclass(frozen=True)
class LineageRow:
  """What is known of one tokenizer.

  Attributes:
    record: The tokenizer and its origin.
    epsilon: What its making cost beyond the model's training, as words.
    kl: KL divergence of unigrams from the users' text to its own.
    kl_floor: The same of a text of as many words as its own, drawn from the users' own
      distribution.
    coverage: How it copes with the text of test users.
    by_user: Its tokens per word, user by user.
    owners: Who has written its new pieces, if it was learnt from samples.
  """

  record: tokenizer_sources.TokenizerRecord
  epsilon: str
  kl: float
  kl_floor: float
  coverage: statistics.Coverage
  by_user: user_figures.TokensPerWord
  owners: user_figures.Owners | None = None


def write(
  chosen: experiment.Experiment,
  data: clients.FederatedText,
  last_index: int,
  folder: pathlib.Path,
) -> list[LineageRow]:
  """Writes `tokenizer_lineage.md`.

  The figures compare with users' real text. Like all evaluation they are exact
  and not covered by the privacy guarantee; training does not see them.

  Args:
    chosen: The experiment.
    data: Its data.
    last_index: The phase that the run ended in.
    folder: The run's folder.

  Returns:
    One row a tokenizer.
  """
  real = statistics.word_counts(
    text
    for user in data.train.client_ids[:_MAX_REFERENCE_USERS]
    for text in data.train.read(user)
  )
  test_users = data.test.client_ids[: chosen.task_settings.max_eval_users]
  test_text = [text for user in test_users for text in data.test.read(user)]
  rows: list[LineageRow] = []
  for index in range(last_index + 1):
    record = tokenizer_sources.read_record(folder, index)
    assert record is not None  # Written before its phase began.
    fingerprint = record.tokenizer.fingerprint
    if rows and fingerprint == rows[-1].record.tokenizer.fingerprint:
      continue  # The phase went on with the tokenizer of the one before.
    own = tokenizer_sources.corpus_counts(record, chosen, data)
    rows.append(
      LineageRow(
        record=record,
        epsilon=_cost(record, chosen),
        kl=statistics.unigram_kl(real, own),
        kl_floor=statistics.unigram_kl_floor(real, sum(own.values())),
        coverage=statistics.coverage(record.tokenizer, test_text),
        by_user=user_figures.tokens_per_word(record.tokenizer, data.test, test_users),
        owners=_owners(rows[-1].record, record, chosen, data) if rows else None,
      )
    )
  files.write_atomically(
    folder / 'tokenizer_lineage.md', _page(rows, last_index, folder)
  )
  return rows


def write_remap_effect(
  folder: pathlib.Path, index: int, effect: dict[str, float]
) -> None:
  """Keeps what the remap to a phase's tokenizer did to the perplexity."""
  files.write_atomically(
    _effect_file(folder, index), json.dumps(effect, indent=2) + '\n'
  )


def _owners(
  before: tokenizer_sources.TokenizerRecord,
  record: tokenizer_sources.TokenizerRecord,
  chosen: experiment.Experiment,
  data: clients.FederatedText,
) -> user_figures.Owners | None:
  """Counts whose words became pieces, among those who trained the sampled model."""
  old, new = before.tokenizer, record.tokenizer
  if not isinstance(old, subword.SubwordTokenizer):
    return None
  if not isinstance(new, subword.SubwordTokenizer) or old.pieces == new.pieces:
    return None
  sampled = phases.lay_out(chosen, data.train.client_ids)[before.index]
  return user_figures.owners(
    remap.new_pieces(new, old, new.size), data.train, sampled.sampler.client_ids
  )


def _cost(
  record: tokenizer_sources.TokenizerRecord, chosen: experiment.Experiment
) -> str:
  if record.source in ('oracle', 'train'):
    return 'no guarantee'
  if record.source == 'heavy_hitters':
    return f'{chosen.task_settings.heavy_hitters_epsilon:g} (local)'
  return '0'


def _page(rows: list[LineageRow], last_index: int, folder: pathlib.Path) -> str:
  """Writes the page."""
  lines = [
    '# Tokenizer lineage',
    '',
    'KL divergence is that of unigram counts from the training users’ text to the',
    'text that the tokenizer was trained on; its floor is that of a text of as many',
    'words, drawn from the users’ own distribution: on average no sample is nearer.',
    'Tokens per word and OOV share are those of test users; the median and the 90th',
    'percentile of tokens per word are taken over these users. These figures look at',
    'users’ text: they are for judging the method and are not private.',
    '',
    '| phase | trained on | epsilon | KL | floor | tokens/word | median user '
    '| 90th pct. | OOV share | size |',
    '| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |',
  ]
  for row in rows:
    lines.append(
      f'| {row.record.index} | {_ORIGINS[row.record.source]} | {row.epsilon} '
      f'| {row.kl:.4f} | {row.kl_floor:.4f} | {row.coverage.tokens_per_word:.3f} '
      f'| {row.by_user.median:.3f} | {row.by_user.p90:.3f} '
      f'| {row.coverage.oov_share:.2%} '
      f'| {row.record.tokenizer.size:,} |'
    )
  for row in rows:
    if row.record.source == 'sample':
      lines += ['', *_sample_section(row.record, folder), *_owner_lines(row.owners)]
  lines += switch_time.section(last_index, folder)
  lines += server_training.section(last_index, folder)
  return '\n'.join(lines) + '\n'


def _sample_section(
  record: tokenizer_sources.TokenizerRecord, folder: pathlib.Path
) -> list[str]:
  """Tells how a sampled tokenizer was made, and what is new in it."""
  facts = record.facts
  lines = [
    f'## Tokenizer {record.index}',
    '',
    f'From {facts["sampled_tokens"]:,} sampled tokens in {facts["sampled_texts"]:,} '
    f'texts ({facts["tokens_per_second"]:,} tokens/s), kept in '
    f'`samples/{record.index}.txt`. {facts["cut_texts"]:,} texts were cut off at the '
    f'greatest length; {facts["empty_texts"]:,} empty ones were left out.',
  ]
  effect_file = _effect_file(folder, record.index)
  if effect_file.exists():
    effect = files.read_json(effect_file)
    lines += [
      '',
      '| validation perplexity per word | |',
      '| --- | --- |',
      f'| before the switch | {effect["perplexity_before"]:.2f} |',
      f'| right after the remap | {effect["perplexity_after_remap"]:.2f} |',
      '| with the mean of the pieces’ output biases instead | '
      f'{effect["perplexity_with_averaged_bias"]:.2f} |',
      '| with fresh embeddings instead | '
      f'{effect["perplexity_with_fresh_embeddings"]:.2f} |',
    ]
  if 'appended' in facts:
    grown = facts['appended']
    lines += [
      '',
      f'{grown["wanted"]:,} pieces were appended to the tokenizer before, whose ids '
      f'stay, and {grown["between"]:,} that stand between, without which BPE would not '
      f'reach them; {grown["reached"]:,} of these {grown["wanted"] + grown["between"]:,} '
      f'are reached. {grown["unreachable"]:,} could not be reached and were left out.',
    ]
  pieces = ' '.join(f'`{piece}`' for piece in facts['new_pieces'])
  return [*lines, '', f'New pieces, the most frequent first: {pieces}']


def _owner_lines(owners: user_figures.Owners | None) -> list[str]:
  """Says how many new pieces are the words of one user, or of nobody."""
  if owners is None:
    return []
  return [
    '',
    f'Of {owners.num_pieces:,} new pieces of {user_figures.LEAST_LETTERS} letters or '
    f'more, {owners.one_user:,} occur in the text of exactly one of the '
    f'{owners.num_users:,} users who trained the sampled model, and {owners.nobody:,} '
    'in the text of none.',
  ]


def _effect_file(folder: pathlib.Path, index: int) -> pathlib.Path:
  return folder / 'tokenizers' / f'{index}_remap.json'
