"""Progress of a run: a bar on a terminal, a line per evaluation elsewhere."""

import sys
import time
from collections.abc import Mapping

import tqdm

from tff_textpriv import metrics as metrics_lib

# The validation metrics that are shown, where there are any.
_SHOWN = ('word_accuracy', 'word_perplexity', 'accuracy', 'auc')


class Progress:
  """Shows round, loss, privacy spent, speed and the time that is left."""

  def __init__(self, rounds_done: int, total_rounds: int):
    """Starts the display.

    Args:
      rounds_done: Rounds behind a resumed run.
      total_rounds: Rounds in all.
    """
    self._total = total_rounds
    self._first = rounds_done
    self._started = time.monotonic()
    # `disable=None` is tqdm's way to show no bar where there is no terminal.
    self._bar = tqdm.tqdm(
      total=total_rounds, initial=rounds_done, unit='round', disable=None
    )

  def __enter__(self) -> 'Progress':
    return self

  def __exit__(self, *exception: object) -> None:
    self._bar.close()

  def show(
    self, round_number: int, metrics: Mapping[str, float], seconds: float
  ) -> None:
    """Shows the figures of a round that took so many seconds."""
    figures = {}
    if 'train_loss' in metrics:
      figures['loss'] = f'{metrics["train_loss"]:.3f}'
    if 'epsilon' in metrics:
      figures['epsilon'] = f'{metrics["epsilon"]:.3f}'
    if 'num_examples' in metrics:
      figures['examples/s'] = f'{metrics["num_examples"] / seconds:.0f}'
    self._bar.set_postfix(figures, refresh=False)
    self._bar.update()
    if not any(name.startswith(metrics_lib.VALIDATION) for name in metrics):
      return
    for metric in map(metrics_lib.find, _SHOWN):
      if metric.validation in metrics:
        figures[metric.short] = metric.shown(metrics[metric.validation])
    line = '  '.join(f'{name} {value}' for name, value in figures.items())
    if self._bar.disable:
      remaining = (self._total - round_number) * self._seconds_per_round(round_number)
      line += f'  {remaining:.0f} s left'
    self._bar.write(f'round {round_number}/{self._total}  {line}', file=sys.stderr)

  def _seconds_per_round(self, round_number: int) -> float:
    return (time.monotonic() - self._started) / (round_number - self._first)
