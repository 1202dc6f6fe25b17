"""What an audit found: the table, audit.json and the pictures of scores."""

import dataclasses
import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tff_textpriv import files
from tff_textpriv.audits import bound
from tff_textpriv.reports import plots, tables

HOLDS = 'holds'
EXCEEDED = 'EXCEEDED'
NO_CLAIM = 'no claim'


IN_OUT = ('in', 'out')
SIGNS = ('+', '-')


@dataclasses.dataclass(frozen=True, eq=False)
class Finding:
  """What was found out about one claim.

  Attributes:
    name: A word for files: `rounds`, `reports`, `bits` or `words`.
    what: What the claim is about.
    sides: What heads and tails of a coin mean.
    num_heads: How many coins showed heads.
    num_coins: How many there were.
    guesses: How well they were guessed, and the bound.
    delta: The delta of the claim.
    claim: The epsilon that is claimed; infinite without a claim.
    scores: What guesses were made from, of the coins with heads and of those with
      tails, and what a score of one is; `None` for bits, which are guesses themselves.
    note: What else is to be said.
  """

  name: str
  what: str
  sides: tuple[str, str]
  num_heads: int
  num_coins: int
  guesses: bound.Guesses
  delta: float
  claim: float
  scores: tuple[np.ndarray, np.ndarray, str] | None = None
  note: str = ''

  @property
  def verdict(self) -> str:
    """Whether the claim holds, as far as the audit can tell."""
    if math.isinf(self.claim):
      return NO_CLAIM
    return EXCEEDED if self.guesses.epsilon > self.claim else HOLDS


@dataclasses.dataclass(frozen=True)
class Auditor:
  """How guesses are made of scores.

  Attributes:
    confidence: The probability with which each bound holds.
    shares: The shares of the coins that are guessed; see `bound.audit`.
  """

  confidence: float
  shares: tuple[float, ...]

  def finding(
    self,
    name: str,
    what: str,
    sides: tuple[str, str],
    scores: np.ndarray,
    coins: np.ndarray,
    *,
    delta: float,
    claim: float,
    unit: str,
    note: str = '',
  ) -> Finding:
    """Returns what scores, float [number], of coins say; see `Finding`."""
    return Finding(
      name,
      what,
      sides,
      int(coins.sum()),
      len(coins),
      bound.audit(scores, coins, delta, self.confidence, self.shares),
      delta,
      claim,
      (scores[coins], scores[~coins], unit),
      note,
    )


def write(
  found: Sequence[Finding], facts: Mapping[str, Any], folder: pathlib.Path
) -> str:
  """Writes `audit.json`, `audit.md` and the pictures.

  Args:
    found: The findings.
    facts: What was audited, and how, as JSON values.
    folder: Where to write.

  Returns:
    The table, in Markdown, and its notes.
  """
  table = tables.markdown(
    (
      'audited',
      'coins',
      'guesses',
      'right',
      'epsilon at least',
      'could show',
      'claimed',
      'verdict',
    ),
    [_cells(finding) for finding in found],
  )
  notes = dict.fromkeys(finding.note for finding in found if finding.note)
  text = '\n\n'.join([table, *notes])
  content = {**facts, 'findings': [_json(finding) for finding in found]}
  files.write_atomically(
    folder / 'audit.json', json.dumps(content, indent=1, allow_nan=False) + '\n'
  )
  files.write_atomically(folder / 'audit.md', f'# Audit\n\n{text}\n')
  for finding in found:
    if finding.scores is not None:
      picture = _picture(finding.what, finding.sides, *finding.scores)
      files.write_atomically(folder / f'audit_{finding.name}.png', picture)
  return text


def sentence(finding: Finding) -> str:
  """Says what a finding means."""
  guesses = finding.guesses
  shown = (
    f'{finding.what}: with {guesses.confidence:.4g} confidence, epsilon is at least '
    f'{guesses.epsilon:.3f}'
  )
  if finding.verdict == NO_CLAIM:
    return f'{shown}; there is no claim to audit'
  if finding.verdict == EXCEEDED:
    return (
      f'{shown}, MORE THAN THE {finding.claim:,.4g} THAT IS CLAIMED; by chance this '
      f'happens to a sound mechanism in {1 - guesses.confidence:.2g} of audits at most: '
      'repeat with another --seed, or a --confidence nearer to 1'
    )
  return f'{shown}; nothing speaks against the claimed {finding.claim:,.4g}'


def _cells(finding: Finding) -> list[str]:
  """Writes a line of the table."""
  guesses, (heads, tails) = finding.guesses, finding.sides
  claim = f'{finding.claim:,.4g}' if math.isfinite(finding.claim) else 'nothing'
  if finding.delta:
    claim += f' (delta {finding.delta:g})'
  num_tails = finding.num_coins - finding.num_heads
  return [
    finding.what,
    f'{finding.num_heads:,} {heads}, {num_tails:,} {tails}',
    f'{guesses.number:,}',
    f'{guesses.right:,}',
    f'{guesses.epsilon:.3f} ({guesses.confidence:.4g})',
    f'{guesses.most:.2f}',
    claim,
    finding.verdict,
  ]


def _json(finding: Finding) -> dict[str, Any]:
  result: dict[str, Any] = {
    'name': finding.name,
    'audited': finding.what,
    'coins': finding.num_coins,
    'heads': finding.num_heads,
    'sides': finding.sides,
    'guesses': finding.guesses.number,
    'right': finding.guesses.right,
    'epsilon_lower_bound': finding.guesses.epsilon,
    'confidence': finding.guesses.confidence,
    'could_show': finding.guesses.most,
    'delta': finding.delta,
    'claimed_epsilon': finding.claim if math.isfinite(finding.claim) else None,
    'verdict': finding.verdict,
    'note': finding.note,
  }
  if finding.scores is not None:
    *scores, unit = finding.scores
    result['score_unit'] = unit
    for side, values in zip(('heads', 'tails'), scores, strict=True):
      result[f'score_{side}'] = {'mean': np.mean(values), 'stddev': np.std(values)}
  return result


def _picture(
  title: str, sides: tuple[str, str], heads: np.ndarray, tails: np.ndarray, unit: str
) -> bytes:
  """Draws the scores of canaries by their coins."""
  figure, axes = plots.blank(7, 4)
  bins = list(np.histogram_bin_edges(np.concatenate([heads, tails]), 40))
  for scores, side in zip((heads, tails), sides, strict=True):
    axes.hist(scores, bins, alpha=0.6, label=side)
  axes.set(xlabel=f'score ({unit})', ylabel='canaries', title=title)
  axes.legend()
  return plots.png(figure)
