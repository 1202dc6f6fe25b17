"""Language-model tasks: tokenizers, from which the phases of a run follow."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from tff_textpriv.privacy import ledger as ledger_lib
from tff_textpriv.training import (
  course,
  experiment,
  language_workbench,
  lineage,
  phases,
  resampling,
  selection,
  server_training,
  switch_time,
  tokenizer_sources,
  warm_start,
  workbench,
)


class LanguageModeling(course.Course):
  """A run on a language-model task."""

  def __init__(self, chosen: experiment.Experiment):
    """Reads the data; see the base class."""
    super().__init__(chosen)
    tokenizer_sources.check_first_tokenizer(chosen)
    task = chosen.task_settings
    self._data = task_data = chosen.task.load(task, chosen.run.seed)
    task_data.check_disjoint()
    switch_time.check_mechanism(chosen, task_data.train.client_ids)
    self._records: dict[int, tokenizer_sources.TokenizerRecord] = {}
    self._starts: dict[int, server_training.Trained] = {}
    self.selection = selection.Selection(
      task.model_selection, task.target_perplexity, stops=task.stop_at_target
    )

  @property
  def users(self) -> Sequence[str]:
    """See the base class."""
    return self._data.train.client_ids

  @property
  def data_summary(self) -> Sequence[str]:
    """See the base class."""
    return self._data.summary

  def describe(self, all_phases: Sequence[phases.Phase]) -> list[str]:
    """See the base class."""
    groups = ('train', 'validation', 'test')
    users = ', '.join(
      f'{len(getattr(self._data, group).client_ids):,} {group}' for group in groups
    )
    sampler = all_phases[-1].sampler
    return [
      f'data      {self._data.name}: {users} users',
      f'rounds    {all_phases[-1].leg.last_round} of {sampler.cohort_size} users, '
      f'{sampler.sampling} sampling',
    ]

  def make_bench(
    self, phase: phases.Phase, before: course.PhaseEnd | None, folder: pathlib.Path
  ) -> language_workbench.LanguageWorkbench:
    """Makes the workbench of a phase's tokenizer, which may have to be made first."""
    known = tokenizer_sources.read_record(folder, phase.index)
    record = known or self._next_tokenizer(before, folder)
    self._records[phase.index] = record
    bench = language_workbench.LanguageWorkbench(
      self._chosen,
      self._data,
      record.tokenizer,
      tokenizer_sources.file_name(phase.index),
      phase.sampler.client_ids,
      folder,
    )
    if self._chosen.task_settings.warm_start_epochs and not phase.leg.continues:
      start = warm_start.make(self._chosen, self._data, bench, phase.index, folder)
      self._starts[phase.index] = start
      bench.start_from(start.weights)
    return bench

  def _next_tokenizer(
    self, before: course.PhaseEnd | None, folder: pathlib.Path
  ) -> tokenizer_sources.TokenizerRecord:
    """Makes the tokenizer of the first phase, or of the next one."""
    if before is None:
      return tokenizer_sources.make_first_tokenizer(self._chosen, self._data)
    if not switch_time.is_searched(self._chosen):
      return self._learnt(before, folder)
    old, index = self._records[before.phase.index], before.phase.index + 1
    if switch_time.is_settled(old):
      return switch_time.unchanged(old, index, None)
    check = switch_time.check(
      _bench(before.bench),
      before.outcome.weights,
      self._chosen,
      old,
      before.outcome.rounds_done,
      self._data.form,
    )
    print(switch_time.say(check))
    if not check['switches']:
      return switch_time.unchanged(old, index, check)
    new = self._learnt(before, folder)
    return dataclasses.replace(new, facts={**new.facts, switch_time.CHECK: check})

  def _learnt(
    self, before: course.PhaseEnd, folder: pathlib.Path
  ) -> tokenizer_sources.TokenizerRecord:
    """Learns the next tokenizer from the model of the phase before."""
    return resampling.learn_tokenizer(
      _bench(before.bench),
      before.outcome.weights,
      self._chosen.algorithm_settings,
      index=before.phase.index + 1,
      vocab_size=self._chosen.task_settings.vocab_size,
      seed=self._chosen.run.seed,
      form=self._data.form,
      folder=folder,
    )

  def begin(
    self, phase: phases.Phase, bench: workbench.Workbench, folder: pathlib.Path
  ) -> str:
    """Keeps the tokenizer; see the base class."""
    record = self._records[phase.index]
    if tokenizer_sources.read_record(folder, phase.index) is None:
      record.write(folder)
    if phase.index in self._starts:
      start = self._starts[phase.index]
      warm_start.write(start, phase.index, folder)
      print(f'  {server_training.say(server_training.WARM_START, start.facts)}')
    return (
      f'phase {phase.index + 1}   {self._chosen.model_name}, '
      f'{bench.num_parameters:,} parameters, {record.tokenizer.size:,} tokens '
      f'({record.source} tokenizer), {len(phase.sampler.client_ids):,} users'
    )

  def open_ledger(self, ledger: ledger_lib.Ledger) -> None:
    """Enters what the first tokenizer cost."""
    tokenizer_sources.charge_first_tokenizer(ledger, self._chosen)
    self._charge_warm_start(ledger)

  def go_on(
    self,
    before: course.PhaseEnd,
    phase: phases.Phase,
    bench: workbench.Workbench,
    process: Any,
    folder: pathlib.Path,
  ) -> Callable[[], Any] | None:
    """Carries the model over to the new tokenizer, where it goes on."""
    ledger = before.outcome.ledger
    if switch_time.CHECK in self._records[phase.index].facts:
      ledger.charge_post_processing(
        'check', 'of the tokenizer that samples of the private model ask for'
      )
    old, new = (_bench(each).tokenizer.fingerprint for each in (before.bench, bench))
    if phase.leg.continues and old == new:
      return lambda: before.outcome.state  # The same model goes on as it is.
    ledger.charge_post_processing(
      'tokenizer', 'trained on text sampled from the private model'
    )
    if phase.leg.continues:
      first_state = self._carried(before, phase, bench, process, folder)
    else:
      self._charge_warm_start(ledger)
      first_state = process.initialize
    if not self._chosen.algorithm_settings.distillation_epochs:
      return first_state
    ledger.charge_post_processing(
      server_training.DISTILLATION, 'on text sampled from the private model'
    )

    def distilled() -> Any:
      state = first_state()
      made = server_training.distill(
        self._chosen,
        _bench(bench),
        process.get_model_weights(state).trainable,
        resampling.samples_file(folder, phase.index),
        phase.index,
      )
      server_training.write_facts(
        made.facts, phase.index, server_training.DISTILLATION, folder
      )
      print(server_training.say(server_training.DISTILLATION, made.facts))
      return server_training.with_weights(state, made.weights)

    return distilled

  def _charge_warm_start(self, ledger: ledger_lib.Ledger) -> None:
    """Enters the training on public text, where there is any."""
    if self._chosen.task_settings.warm_start_epochs:
      ledger.charge_post_processing(
        server_training.WARM_START, 'of the model, on public text'
      )

  def _carried(
    self,
    before: course.PhaseEnd,
    phase: phases.Phase,
    bench: workbench.Workbench,
    process: Any,
    folder: pathlib.Path,
  ) -> Callable[[], Any]:
    """Measures the remap; returns what makes the first state by it."""
    ledger = before.outcome.ledger
    change = resampling.Remap(
      _bench(before.bench),
      _bench(bench),
      resampling.read_sample(folder, phase.index),
    )
    effect = resampling.remap_effect(
      change, before.outcome.weights, self._chosen.run.seed
    )
    ledger.charge_post_processing('remap', 'of the private model to the new tokenizer')
    lineage.write_remap_effect(folder, phase.index, effect)
    print(
      f'perplexity per word {effect["perplexity_before"]:.2f} before the remap, '
      f'{effect["perplexity_after_remap"]:.2f} after it '
      f'({effect["perplexity_with_averaged_bias"]:.2f} with averaged biases), '
      f'{effect["perplexity_with_fresh_embeddings"]:.2f} with fresh embeddings'
    )
    return functools.partial(
      resampling.carry_over, before.outcome.state, process, before.mechanism, change
    )

  def finish(
    self, end: course.PhaseEnd, metrics: Mapping[str, float], folder: pathlib.Path
  ) -> tuple[dict[str, Any], str]:
    """Writes the lineage of the tokenizers; see the base class."""
    rows = lineage.write(self._chosen, self._data, end.phase.index, folder)
    more = {
      'rounds_to_target': end.outcome.target_round,
      'tokenizer_kl': rows[-1].kl,
      'tokenizer_kl_floor': rows[-1].kl_floor,
      'test_tokens_per_word_median_user': rows[-1].by_user.median,
      'test_tokens_per_word_p90_user': rows[-1].by_user.p90,
    }
    lines = [
      f'{whose}: word accuracy {metrics[f"{prefix}word_accuracy"]:.4f}, perplexity per '
      f'word {metrics[f"{prefix}word_perplexity"]:.2f} '
      f'({metrics[f"{prefix}num_words"]:,} words)'
      for prefix, whose in _TESTED.items()
      if f'{prefix}word_accuracy' in metrics
    ]
    if self.selection.rule == selection.BEST:
      lines[0] += (
        f' (model of round {end.outcome.selected_round}, the best on validation users)'
      )
    return more, '\n'.join(lines)


_TESTED = {
  '': 'test users',
  'received_local_': 'users’ own models, as received, on their own posts',
  'local_': 'users’ own models, trained once more, on their own posts',
}


def _bench(bench: workbench.Workbench) -> language_workbench.LanguageWorkbench:
  """Returns a workbench as what this course has made."""
  return cast(language_workbench.LanguageWorkbench, bench)
