"""Runs an experiment on a classification task, from data to privacy card."""

import pathlib
from collections.abc import Mapping
from typing import cast

from tff_textpriv import settings as settings_lib
from tff_textpriv.datasets import labelled
from tff_textpriv.privacy import ledger as ledger_lib
from tff_textpriv.privacy import local, local_gaussian, plans
from tff_textpriv.runtime import cohorts, execution
from tff_textpriv.training import (
  classification_settings,
  classifier_workbench,
  experiment,
  output,
  program,
  reporting,
  selection,
  token_workbench,
)

_Workbench = classifier_workbench.ClassifierWorkbench | token_workbench.TokenWorkbench
# The figures of a test that are printed, and how.
_FIGURES = {
  'auc': 'AUC',
  'accuracy': 'accuracy',
  'global_accuracy': 'global accuracy',
  'local_accuracy': 'local accuracy',
  'received_local_accuracy': 'as received',
}


def run(chosen: experiment.Experiment, train: program.Trainer | None = None) -> int:
  """Trains, evaluates on the test examples, and writes the output folder.

  Args:
    chosen: The experiment.
    train: What trains; `program.train` if not given.

  Returns:
    The command's exit code: 0, or 128 plus the signal that interrupted.
  """
  _check_claim(chosen)
  data = chosen.task.load(chosen.task_settings, chosen.run.seed)
  with output.OutputFolder(chosen.folder) as folder:
    return _run_in(folder, chosen, data, train or program.train)


def _run_in(
  folder: output.OutputFolder,
  chosen: experiment.Experiment,
  data: labelled.LabelledData,
  train: program.Trainer,
) -> int:
  """Runs an experiment in its folder; returns the exit code."""
  folder.check_config(chosen.config)
  bench = _workbench(chosen, data, folder.path)
  try:
    return _run_on(bench, folder, chosen, data, train)
  finally:
    if bench.devices is not None:
      bench.devices.close()


def _run_on(
  bench: _Workbench,
  folder: output.OutputFolder,
  chosen: experiment.Experiment,
  data: labelled.LabelledData,
  train: program.Trainer,
) -> int:
  """Runs an experiment on its workbench; returns the exit code."""
  sampler = _sampler(chosen, bench)
  plan = _plan(chosen, bench, sampler.cohort_size)
  # Nothing that the user chose can be refused any more.
  folder.claim(chosen.config)
  _say_what_runs(chosen, data, bench, sampler, plan)
  with execution.execution(
    chosen.machine.num_workers,
    chosen.machine.workers,
    chosen.machine.max_concurrent_clients,
    cohort_size=sampler.cohort_size,
    log_dir=folder.path,
  ) as runtime:
    process = chosen.algorithm.build(
      bench.functional, chosen.algorithm_settings, plan, chosen.run.seed
    )
    outcome = train(
      program.Program(
        process=process,
        sampler=sampler,
        client_data=bench.client_batches,
        evaluate=lambda weights: bench.evaluate(weights, 'validation'),
        plan=plan,
        total_rounds=chosen.run.total_rounds,
        rounds_per_eval=chosen.run.rounds_per_eval,
        rounds_per_checkpoint=chosen.machine.rounds_per_checkpoint,
        client_seed=chosen.run.seed if chosen.algorithm.client_seeds else None,
        selection=selection.Selection(
          chosen.task_settings.model_selection, metric='loss'
        ),
        devices=bench.devices,
      ),
      _opening_ledger(chosen, plan),
      folder.path,
      runtime,
    )
  if outcome.ended == 'interrupted':
    return reporting.interrupted(outcome)
  metrics = bench.test(outcome.selected_weights, outcome.rounds_done)
  privacy = reporting.write_card(
    chosen, outcome, plan, folder.path, chosen.task_settings.user_note
  )
  reporting.write_results(
    outcome,
    privacy,
    metrics,
    bench.to_keras(outcome.selected_weights),
    bench.usage(folder.path),
    folder.path,
    **reporting.bytes_per_client(process, plan),
  )
  figures = ', '.join(
    f'{name} {metrics[key]:.4f}' for key, name in _FIGURES.items() if key in metrics
  )
  if chosen.task_settings.model_selection == selection.BEST:
    figures += f', model of round {outcome.selected_round}'
  reporting.say_results(
    outcome,
    privacy,
    f'test: {figures} ({_tested_on(metrics)})',
    folder.path,
  )
  return 0


def _tested_on(metrics: Mapping[str, float]) -> str:
  """Says on what the figures of the test were measured."""
  names = {'num_examples': 'examples', 'num_users': 'users'}
  return ', '.join(
    f'{metrics[key]:,} {name}' for key, name in names.items() if key in metrics
  )


def _workbench(
  chosen: experiment.Experiment, data: labelled.LabelledData, folder: pathlib.Path
) -> _Workbench:
  """Makes the workbench that goes with what the model reads.

  Raises:
    IncompatibleSettingsError: If the algorithm cannot train the model.
  """
  if chosen.task_settings.reads_tokens:
    return token_workbench.TokenWorkbench(chosen, data, folder)
  if chosen.algorithm.local_part:
    raise settings_lib.IncompatibleSettingsError(
      f'--algo={chosen.algorithm.name} leaves an embedding of words on the device, '
      f'which --model={chosen.task_settings.model} of the task {chosen.task.name} does '
      'not have; it goes with the models bilstm_* and encoder_* of the tasks newsgroups, '
      'agnews, sst2 and custom'
    )
  return classifier_workbench.ClassifierWorkbench(chosen, data)


def _check_claim(chosen: experiment.Experiment) -> None:
  """Refuses a privacy claim that the representation or the federation breaks."""
  task = chosen.task_settings
  if task.parts_users and chosen.claims_privacy:
    raise settings_lib.IncompatibleSettingsError(
      f'--federation={task.federation} deals the texts of one user to many clients: a '
      'figure for clients would promise nothing to users. Use --federation=users, or for '
      'a comparison add --privacy_claim=false.'
    )
  if task.reads_clients_text and chosen.claims_privacy:
    what = f'--representation={task.representation} is fitted on'
    if task.reads_tokens:
      what = 'without --vectors_file or --checkpoint, the vocabulary is made of'
    raise settings_lib.IncompatibleSettingsError(
      f'{what} the clients’ text, which no noise protects: there is no privacy figure to '
      'claim. For a comparison, add --privacy_claim=false.'
    )


def _sampler(chosen: experiment.Experiment, bench: _Workbench) -> cohorts.CohortSampler:
  """Makes the sampler; without clients, there is one place that always takes part."""
  client_ids = list(bench.partition)
  run = cast(classification_settings.ClassificationRunSettings, chosen.run)
  if chosen.algorithm.pooled:
    return cohorts.CohortSampler(client_ids, 1, 'fixed', chosen.run.seed)
  return cohorts.CohortSampler(
    client_ids,
    run.cohort(len(client_ids)),
    chosen.run.cohort_sampling,
    chosen.run.seed,
    run.dropout_rate,
  )


def _plan(
  chosen: experiment.Experiment,
  bench: _Workbench,
  cohort_size: int,
) -> reporting.Plan | None:
  """Makes the privacy plan, where the algorithm has one."""
  privacy = chosen.privacy_settings
  if privacy is None:
    return None
  if isinstance(privacy, local.LocalPrivacySettings):
    return local.make_plan(privacy, bench.model.num_parameters)
  if isinstance(privacy, local_gaussian.LocalGaussianSettings):
    return privacy.plan()
  return plans.make_plan(
    privacy,
    sampling=chosen.run.cohort_sampling,
    simulated_population=len(bench.partition),
    simulated_cohort=cohort_size,
    rounds=chosen.run.total_rounds,
  )


def _opening_ledger(
  chosen: experiment.Experiment, plan: reporting.Plan | None
) -> ledger_lib.Ledger:
  """Opens the ledger with what is settled before the first round."""
  ledger = reporting.opening_ledger(chosen, plan)
  if chosen.task_settings.reads_clients_text and chosen.algorithm.local_part != 'table':
    ledger.note_no_guarantee('representation', 'fitted on the clients’ own text')
  return ledger


def _say_what_runs(
  chosen: experiment.Experiment,
  data: labelled.LabelledData,
  bench: _Workbench,
  sampler: cohorts.CohortSampler,
  plan: reporting.Plan | None,
) -> None:
  """Prints what is about to be trained, on what, and under which promise."""
  task = chosen.task_settings
  sizes = [len(rows) for rows in bench.partition.values()]
  print(f'{chosen.task.name} with {chosen.algorithm.name} in {chosen.folder}')
  print(
    f'  data      {data.name}: {sum(sizes):,} train, {len(data.validation):,} '
    f'validation, {len(data.test):,} test examples'
  )
  if chosen.algorithm.pooled:
    print(f'  rounds    {chosen.run.total_rounds} passes over all data in one place')
  else:
    print(
      f'  clients   {len(sizes):,} of {min(sizes):,} to {max(sizes):,} examples '
      f'({task.federation})'
    )
    print(
      f'  rounds    {chosen.run.total_rounds} of {sampler.cohort_size:,} clients, '
      f'{sampler.sampling} sampling'
    )
  read = 'words' if task.reads_tokens else task.representation
  if chosen.algorithm.local_part == 'table':
    read = 'users’ own words'
  print(
    f'  model     {task.model} on {read}, {bench.model.num_parameters:,} parameters'
  )
  for note in reporting.plan_notes(plan):
    print(f'  {note}')
  if plan is not None and task.user_note is not None:
    print(f'  note      {task.user_note}')
