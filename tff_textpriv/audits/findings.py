"""What an audit found: the table, audit.json and the pictures of scores."""

import dataclasses
import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tff_textpriv import files
from tff_textpriv.audits import bound, noise_audit
from tff_textpriv.reports import plots, tables

HOLDS = 'holds'
NOT_REFUTED = 'not refuted'
EXCEEDED = 'EXCEEDED'
NO_CLAIM = 'no claim'


# A bound of this share of the claim is near it; one below says little.
_NEAR = 0.5
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
    if self.guesses.epsilon > self.claim:
      return EXCEEDED
    return HOLDS if self.guesses.epsilon >= _NEAR * self.claim else NOT_REFUTED


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


def pooled(runs: Sequence[Sequence[Finding]], auditor: Auditor) -> list[Finding]:
  """Joins what several independent runs found of the same claims.

  Every canary is in one run, with a coin of its own: all runs together are one mechanism
  with the same promise to each, and many more coins.

  Args:
    runs: The findings of each run, in the same order.
    auditor: How guesses are made of all scores.
  """
  return [_joined(each, auditor) for each in zip(*runs, strict=True)]


def _joined(found: Sequence[Finding], auditor: Auditor) -> Finding:
  first = found[0]
  if len(found) == 1:
    return first
  claim = max(finding.claim for finding in found)
  scored = [finding.scores for finding in found if finding.scores is not None]
  if not scored:
    guesses = [finding.guesses for finding in found]
    return dataclasses.replace(
      first,
      num_heads=sum(finding.num_heads for finding in found),
      num_coins=sum(finding.num_coins for finding in found),
      claim=claim,
      guesses=bound.made(
        sum(finding.num_coins for finding in found),
        sum(each.number for each in guesses),
        sum(each.right for each in guesses),
        first.delta,
        auditor.confidence,
      ),
    )
  heads, tails = (np.concatenate([scores[i] for scores in scored]) for i in range(2))
  return auditor.finding(
    first.name,
    first.what,
    first.sides,
    np.concatenate([heads, tails]),
    np.arange(len(heads) + len(tails)) < len(heads),
    delta=first.delta,
    claim=claim,
    unit=scored[0][2],
    note=first.note,
  )


def write(
  found: Sequence[Finding],
  noise: Sequence[noise_audit.NoiseCheck],
  facts: Mapping[str, Any],
  folder: pathlib.Path,
) -> str:
  """Writes `audit.json`, `audit.md` and the pictures.

  Args:
    found: The findings.
    noise: What was found of the noise itself, if anything.
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
  of_noise = [] if not noise else [_noise_table(noise)]
  text = '\n\n'.join([table, *notes, *of_noise])
  content = {
    **facts,
    'findings': [_json(finding) for finding in found],
    'noise': [
      {**dataclasses.asdict(check), 'verdict': check.verdict} for check in noise
    ],
  }
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
  words = f'{shown}; nothing speaks against the claimed {finding.claim:,.4g}'
  if finding.verdict == NOT_REFUTED:
    words += (
      f', but that is not refuted only: such an audit could have seen up to '
      f'{guesses.most:.2f}, had every guess been right'
    )
  return words


def noise_sentence(check: noise_audit.NoiseCheck) -> str:
  """Says what a failed check of the noise means."""
  return (
    f'THE NOISE IS NOT WHAT IS ACCOUNTED FOR ({check.name}): {check.what}: {check.seen}; '
    f'by chance with probability {check.p_value:.2g}'
  )


def _noise_table(noise: Sequence[noise_audit.NoiseCheck]) -> str:
  return tables.markdown(
    ('noise', 'seen', 'by chance', 'could see', 'verdict'),
    [
      [check.what, check.seen, f'{check.p_value:.2g}', check.could_see, check.verdict]
      for check in noise
    ],
  )


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
