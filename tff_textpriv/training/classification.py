"""Runs an experiment on a classification task, from data to privacy card."""

from tff_textpriv import settings as settings_lib
from tff_textpriv.datasets import labelled
from tff_textpriv.iterative_processes import classification_model
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
)


def run(chosen: experiment.Experiment) -> int:
  """Trains, evaluates on the test examples, and writes the output folder.

  Args:
    chosen: The experiment.

  Returns:
    The command's exit code: 0, or 128 plus the signal that interrupted.
  """
  _check_claim(chosen)
  data = chosen.task.load(chosen.task_settings, chosen.run.seed)
  folder = output.OutputFolder(chosen.folder)
  folder.check_config(chosen.config)
  bench = classifier_workbench.ClassifierWorkbench(chosen, data)
  sampler = _sampler(chosen, bench)
  plan = _plan(chosen, bench, sampler.cohort_size)
  # Nothing that the user chose can be refused any more.
  folder.claim(chosen.config)
  _say_what_runs(chosen, data, bench, sampler, plan)
  with execution.execution(
    chosen.machine.num_workers,
    chosen.machine.workers,
    chosen.machine.max_concurrent_clients,
    log_dir=folder.path,
  ) as runtime:
    process = chosen.algorithm.build(
      classification_model.from_classifier(
        bench.model, bench.model.initial_weights(chosen.run.seed)
      ),
      chosen.algorithm_settings,
      plan,
      chosen.run.seed,
    )
    outcome = program.train(
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
      ),
      _opening_ledger(chosen, plan),
      folder.path,
      runtime,
    )
  if outcome.ended == 'interrupted':
    return reporting.interrupted(outcome)
  metrics = bench.evaluate(outcome.selected_weights, 'test')
  privacy = reporting.write_card(chosen, outcome, plan, folder.path)
  reporting.write_results(outcome, privacy, metrics, bench.model, folder.path)
  figures = f'accuracy {metrics["accuracy"]:.4f}'
  if 'auc' in metrics:
    figures = f'AUC {metrics["auc"]:.4f}, {figures}'
  if chosen.task_settings.model_selection == selection.BEST:
    figures += f', model of round {outcome.selected_round}'
  reporting.say_results(
    outcome,
    privacy,
    f'test examples: {figures} ({metrics["num_examples"]:,} examples)',
    folder.path,
  )
  return 0


def _check_claim(chosen: experiment.Experiment) -> None:
  """Refuses a privacy claim that the representation breaks."""
  representation = chosen.task_settings.representation
  if representation in classification_settings.FITTED and chosen.claims_privacy:
    raise settings_lib.IncompatibleSettingsError(
      f'--representation={representation} is fitted on the clients’ text, which no '
      'noise protects: there is no privacy figure to claim. For a comparison, add '
      '--privacy_claim=false.'
    )


def _sampler(
  chosen: experiment.Experiment, bench: classifier_workbench.ClassifierWorkbench
) -> cohorts.CohortSampler:
  """Makes the sampler; without clients, there is one place that always takes part."""
  client_ids = list(bench.partition)
  if chosen.algorithm.pooled:
    return cohorts.CohortSampler(client_ids, 1, 'fixed', chosen.run.seed)
  return cohorts.CohortSampler(
    client_ids,
    chosen.run.clients_per_round or len(client_ids),
    chosen.run.cohort_sampling,
    chosen.run.seed,
  )


def _plan(
  chosen: experiment.Experiment,
  bench: classifier_workbench.ClassifierWorkbench,
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
  if chosen.task_settings.representation in classification_settings.FITTED:
    ledger.note_no_guarantee('representation', 'fitted on the clients’ own text')
  return ledger


def _say_what_runs(
  chosen: experiment.Experiment,
  data: labelled.LabelledData,
  bench: classifier_workbench.ClassifierWorkbench,
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
  print(
    f'  model     {task.model} on {task.representation}, '
    f'{bench.model.num_parameters:,} parameters'
  )
  for note in reporting.plan_notes(plan):
    print(f'  {note}')
