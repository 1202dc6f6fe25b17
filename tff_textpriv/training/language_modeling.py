"""Runs an experiment on a language-model task, from data to privacy card."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from tff_textpriv.datasets import clients
from tff_textpriv.iterative_processes import learning_model
from tff_textpriv.privacy import ledger as ledger_lib
from tff_textpriv.privacy import local, plans
from tff_textpriv.runtime import execution
from tff_textpriv.training import (
  checkpoints,
  experiment,
  lineage,
  output,
  phases,
  program,
  reporting,
  resampling,
  selection,
  tokenizer_sources,
  workbench,
)


def run(chosen: experiment.Experiment, train: program.Trainer | None = None) -> int:
  """Trains, evaluates on test users, and writes the output folder.

  Args:
    chosen: The experiment.
    train: What trains each phase; `program.train` if not given.

  Returns:
    The command's exit code: 0, or 128 plus the signal that interrupted.
  """
  tokenizer_sources.check_first_tokenizer(chosen)
  data = chosen.task.load(chosen.task_settings, chosen.run.seed)
  data.check_disjoint()
  all_phases = phases.plan_phases(chosen, data.train.client_ids)
  with output.OutputFolder(chosen.folder) as folder:
    folder.check_config(chosen.config)
    _say_what_runs(chosen, data, all_phases)
    with execution.execution(
      chosen.machine.num_workers,
      chosen.machine.workers,
      chosen.machine.max_concurrent_clients,
      cohort_size=chosen.run.clients_per_round,
      log_dir=folder.path,
    ) as runtime:
      end = _train_phases(
        chosen, data, all_phases, folder, runtime, train or program.train
      )
    if end.outcome.ended == 'interrupted':
      return reporting.interrupted(end.outcome)
    _finish(chosen, data, end, folder.path)
  return 0


@dataclasses.dataclass(frozen=True)
class _PhaseEnd:
  """Where a phase left off: its outcome, and what goes with its weights."""

  phase: phases.Phase
  bench: workbench.Workbench
  process: Any
  outcome: program.Outcome


def _train_phases(
  chosen: experiment.Experiment,
  data: clients.FederatedText,
  all_phases: Sequence[phases.Phase],
  output_folder: output.OutputFolder,
  runtime: execution.Runtime,
  train: program.Trainer,
) -> _PhaseEnd:
  """Trains phase after phase; a resumed run starts with the last one begun."""
  folder = output_folder.path
  end: _PhaseEnd | None = None
  for phase in all_phases[_last_begun(all_phases, folder) :]:
    known = tokenizer_sources.read_record(folder, phase.index)
    record = known or _next_tokenizer(chosen, data, end, folder)
    bench = workbench.Workbench(chosen, data, record.tokenizer)
    phase = phases.for_model(phase, chosen, bench.model.num_parameters)
    if known is None:
      # Nothing that the user chose can be refused any more.
      output_folder.claim(chosen.config)
      record.write(folder)
    print(
      f'phase {phase.index + 1} of {len(all_phases)}: {chosen.task_settings.model}, '
      f'{bench.model.num_parameters:,} parameters, {bench.tokenizer.size:,} tokens '
      f'({record.source} tokenizer), {len(phase.users):,} users'
    )
    if isinstance(phase.plan, local.LdpPlan):
      for warning in phase.plan.warnings:
        print(f'  note      {warning}')
    end = _train_phase(chosen, phase, bench, end, folder, runtime, train)
    if end.outcome.ended != 'finished':
      break
  assert end is not None  # There is at least one phase.
  return end


def _last_begun(all_phases: Sequence[phases.Phase], folder: pathlib.Path) -> int:
  """Returns the index of the last phase of which there is a checkpoint, or 0."""
  begun = [
    phase.index
    for phase in all_phases
    if checkpoints.exist_in(folder / _checkpoint_folder(phase))
  ]
  return max(begun, default=0)


def _checkpoint_folder(phase: phases.Phase) -> str:
  return f'checkpoints/phase_{phase.index}'


def _next_tokenizer(
  chosen: experiment.Experiment,
  data: clients.FederatedText,
  before: _PhaseEnd | None,
  folder: pathlib.Path,
) -> tokenizer_sources.TokenizerRecord:
  """Makes the tokenizer of the first phase, or of the next one."""
  if before is None:
    return tokenizer_sources.make_first_tokenizer(chosen, data)
  return resampling.learn_tokenizer(
    before.bench,
    before.outcome.weights,
    chosen.algorithm_settings,
    index=before.phase.index + 1,
    vocab_size=chosen.task_settings.vocab_size,
    seed=chosen.run.seed,
    folder=folder,
  )


def _train_phase(
  chosen: experiment.Experiment,
  phase: phases.Phase,
  bench: workbench.Workbench,
  before: _PhaseEnd | None,
  folder: pathlib.Path,
  runtime: execution.Runtime,
  train: program.Trainer,
) -> _PhaseEnd:
  """Trains one phase, from its newest checkpoint if there is one."""
  process = chosen.algorithm.build(
    learning_model.from_language_model(
      bench.model, bench.model.initial_weights(chosen.run.seed)
    ),
    chosen.algorithm_settings,
    phase.plan,
    chosen.run.seed,
  )
  initial_state: Callable[[], Any] | None = None
  ledger = _opening_ledger(chosen, phase)
  if before is not None:
    ledger = before.outcome.ledger
    ledger.charge_post_processing(
      'tokenizer', 'trained on text sampled from the private model'
    )
    if phase.continues:
      initial_state = functools.partial(
        resampling.carry_over, before.outcome.state, process, before.bench, bench
      )
      effect = resampling.remap_effect(
        before.bench, bench, before.outcome.weights, chosen.run.seed
      )
      ledger.charge_post_processing(
        'remap', 'of the private model to the new tokenizer'
      )
      lineage.write_remap_effect(folder, phase.index, effect)
      print(
        f'perplexity per word {effect["perplexity_before"]:.2f} before the remap, '
        f'{effect["perplexity_after_remap"]:.2f} after it, '
        f'{effect["perplexity_with_fresh_embeddings"]:.2f} with fresh embeddings'
      )
  outcome = train(
    program.Program(
      process=process,
      sampler=phase.sampler,
      client_data=bench.client_batches,
      evaluate=lambda weights: bench.evaluate(weights, 'validation'),
      plan=phase.plan,
      total_rounds=phase.last_round,
      rounds_per_eval=chosen.run.rounds_per_eval,
      rounds_per_checkpoint=chosen.machine.rounds_per_checkpoint,
      rounds_before=phase.rounds_before,
      initial_state=initial_state,
      checkpoint_folder=_checkpoint_folder(phase),
      user_group=phase.group,
      client_seed=chosen.run.seed if chosen.algorithm.client_seeds else None,
      selection=selection.Selection(
        chosen.task_settings.model_selection, chosen.task_settings.target_perplexity
      ),
    ),
    ledger,
    folder,
    runtime,
  )
  return _PhaseEnd(phase, bench, process, outcome)


def _opening_ledger(
  chosen: experiment.Experiment, phase: phases.Phase
) -> ledger_lib.Ledger:
  """Opens the ledger with what is settled before the first round."""
  ledger = reporting.opening_ledger(chosen, phase.plan)
  tokenizer_sources.charge_first_tokenizer(ledger, chosen)
  return ledger


def _say_what_runs(
  chosen: experiment.Experiment,
  data: clients.FederatedText,
  all_phases: Sequence[phases.Phase],
) -> None:
  """Prints what is about to be trained, on whom, and under which promise."""
  users = ', '.join(
    f'{len(getattr(data, group).client_ids):,} {group}'
    for group in ('train', 'validation', 'test')
  )
  print(f'{chosen.task.name} with {chosen.algorithm.name} in {chosen.folder}')
  print(f'  data      {data.name}: {users} users')
  print(
    f'  rounds    {all_phases[-1].last_round} of {chosen.run.clients_per_round} users, '
    f'{chosen.run.cohort_sampling} sampling'
  )
  notes: dict[str, None] = {}
  for phase in all_phases:
    if isinstance(chosen.privacy_settings, local.LocalPrivacySettings):
      # The plan, and with it what there is to say, depends on the model's size.
      notes['privacy   local, bit by bit'] = None
    else:
      notes |= dict.fromkeys(reporting.plan_notes(phase.plan, phase.group))
  for note in notes:
    print(f'  {note}')


def _finish(
  chosen: experiment.Experiment,
  data: clients.FederatedText,
  end: _PhaseEnd,
  folder: pathlib.Path,
) -> None:
  """Evaluates on test users; writes results, model, card, lineage; prints them."""
  outcome = end.outcome
  metrics = end.bench.evaluate(outcome.selected_weights, 'test')
  privacy = reporting.write_card(chosen, outcome, end.phase.plan, folder)
  rows = lineage.write(chosen, data, outcome.ledger, end.phase.index, folder)
  reporting.write_results(
    outcome,
    privacy,
    metrics,
    end.bench.model.to_keras(outcome.selected_weights),
    end.bench.usage(tokenizer_sources.file_name(end.phase.index)),
    folder,
    rounds_to_target=outcome.target_round,
    tokenizer_kl=rows[-1].kl,
    **reporting.bytes_per_client(end.process, end.phase.plan),
  )
  which = (
    f' (model of round {outcome.selected_round}, the best on validation users)'
    if chosen.task_settings.model_selection == selection.BEST
    else ''
  )
  reporting.say_results(
    outcome,
    privacy,
    f'test users: word accuracy {metrics["word_accuracy"]:.4f}, perplexity per word '
    f'{metrics["word_perplexity"]:.2f} ({metrics["num_words"]:,} words){which}',
    folder,
  )
  if metrics['token_perplexity'] > end.bench.tokenizer.size:
    print(f'note: {_worse_than_guessing(chosen)}')


def _worse_than_guessing(chosen: experiment.Experiment) -> str:
  """Says what to do about a model whose perplexity is above the vocabulary's size."""
  said = 'the model is worse than one that finds all tokens equally likely; '
  if isinstance(chosen.privacy_settings, plans.PrivacySettings):
    return said + (
      'the noise of so small a cohort drowns what users send. More users a round, fewer '
      'parameters or a smaller --server_learning_rate help; `python -m '
      'tff_textpriv.tools.plan` shows what a larger cohort needs'
    )
  return said + 'try smaller learning rates'
