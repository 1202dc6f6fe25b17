"""Runs an experiment, from data to privacy card: one path for every kind of task."""

import contextlib
import pathlib
import tempfile
from collections.abc import Sequence

from tff_textpriv import settings
from tff_textpriv.privacy import ledger as ledger_lib
from tff_textpriv.runtime import execution
from tff_textpriv.training import (
  checkpoints,
  classification,
  cohort_data,
  course,
  experiment,
  garbage,
  language_modeling,
  output,
  phases,
  program,
  reporting,
  secret,
  workbench,
)

_COURSES: dict[str, type[course.Course]] = {
  'classification': classification.Classification,
  'language_model': language_modeling.LanguageModeling,
}


def open_bench(chosen: experiment.Experiment) -> workbench.Workbench:
  """Makes the workbench that a run would begin with; nothing is written."""
  running = _COURSES[chosen.task.kind](chosen)
  first = phases.lay_out(chosen, running.users)[0]
  with tempfile.TemporaryDirectory() as empty:
    return running.make_bench(first, None, pathlib.Path(empty))


def run(chosen: experiment.Experiment, train: program.Trainer | None = None) -> int:
  """Trains, tests, and writes the output folder.

  Args:
    chosen: The experiment.
    train: What trains each phase; `program.train` if not given.

  Returns:
    The command's exit code: 0, or 128 plus the signal that interrupted.
  """
  running = _COURSES[chosen.task.kind](chosen)
  all_phases = phases.lay_out(chosen, running.users)
  for phase in all_phases:
    # A promise that no model can keep ends the run now, before anything is written.
    phase.mechanism(chosen)
  with garbage.without_callbacks(), output.OutputFolder(chosen.folder) as folder:
    folder.check_config(chosen.config, _may_grow(chosen, all_phases))
    if chosen.privacy_settings.noise_source == 'system':
      secret.keep(chosen.stream, folder.path)
    print(f'{chosen.task.name} with {chosen.algorithm.name} in {chosen.folder}')
    said = reporting.Beginning(folder.path)
    said.note(running.data_summary)
    said.say(
      [
        *running.describe(all_phases),
        *reporting.fitted_notes(chosen, len(running.users)),
        *_seed_notes(chosen),
      ]
    )
    # What devices keep is a part of the test: they are closed after it.
    with contextlib.ExitStack() as devices:
      with execution.execution(
        chosen.machine.num_workers,
        chosen.machine.workers,
        chosen.machine.max_concurrent_clients,
        isolate_workers=chosen.machine.isolate_workers,
        cohort_size=all_phases[0].sampler.cohort_size,
        log_dir=folder.path,
        workers_key=chosen.machine.workers_key,
        insecure_workers=chosen.machine.insecure_workers,
        worker_patience=chosen.machine.worker_patience,
        min_workers=chosen.machine.min_workers,
        balance_workers=chosen.machine.balance_workers,
      ) as runtime:
        end = _train_phases(
          running,
          chosen,
          all_phases,
          folder,
          runtime,
          train or program.train,
          devices,
          said,
        )
      if end.outcome.ended == 'interrupted':
        return reporting.interrupted(end.outcome)
      _finish(running, chosen, end, folder.path)
    if chosen.machine.forget_secret:
      secret.forget(folder.path)
  return 0


def _may_grow(
  chosen: experiment.Experiment, all_phases: Sequence[phases.Phase]
) -> tuple[str, ...]:
  """Returns the settings that may be larger when a run is repeated.

  Where nothing is promised, no noise was calibrated to the number of rounds, and where a
  model is trained in one phase, no round but the last depends on it.
  """
  is_free = not chosen.privacy_settings.claims and len(all_phases) == 1
  return ('total_rounds',) if is_free else ()


def _seed_notes(chosen: experiment.Experiment) -> list[str]:
  """Warns of runs that draw the same noise: in the difference of two it cancels."""
  if not chosen.privacy_settings.claims or not chosen.folder.parent.exists():
    return []
  if chosen.privacy_settings.noise_source != 'seeded':
    return []
  others = secret.runs_that_share_noise(chosen.config, chosen.folder)
  if not others:
    return []
  named = ', '.join(others[:3]) + (', ...' if len(others) > 3 else '')
  return [
    f'note      --seed={chosen.run.seed} is also that of {named}: the noise is the same, '
    'and whoever has both models can take it out; --noise_source=system shares none'
  ]


def _train_phases(
  running: course.Course,
  chosen: experiment.Experiment,
  all_phases: Sequence[phases.Phase],
  folder: output.OutputFolder,
  runtime: execution.Runtime,
  train: program.Trainer,
  devices: contextlib.ExitStack,
  said: reporting.Beginning,
) -> course.PhaseEnd:
  """Trains phase after phase; a resumed run starts with the last one begun.

  What devices keep stays open until `devices` is closed.
  """
  end: course.PhaseEnd | None = None
  for phase in all_phases[_last_begun(all_phases, folder.path) :]:
    bench = running.make_bench(phase, end, folder.path)
    if bench.devices is not None:
      devices.callback(bench.devices.close)
    end = _train_phase(running, chosen, phase, bench, end, folder, runtime, train, said)
    if end.outcome.ended != 'finished':
      break
  assert end is not None  # There is at least one phase.
  return end


def _last_begun(all_phases: Sequence[phases.Phase], folder: pathlib.Path) -> int:
  """Returns the index of the last phase of which there is a checkpoint, or 0."""
  begun = [
    phase.index for phase in all_phases if checkpoints.exist_in(folder / phase.folder)
  ]
  return max(begun, default=0)


def _train_phase(
  running: course.Course,
  chosen: experiment.Experiment,
  phase: phases.Phase,
  bench: workbench.Workbench,
  before: course.PhaseEnd | None,
  folder: output.OutputFolder,
  runtime: execution.Runtime,
  train: program.Trainer,
  said: reporting.Beginning,
) -> course.PhaseEnd:
  """Trains one phase, from its newest checkpoint if there is one."""
  mechanism = phase.mechanism(chosen, bench.num_parameters)
  _check_reach(chosen, bench, runtime)
  # Nothing that the user chose can be refused any more.
  folder.claim(chosen.config)
  deployment = phase.deployment(chosen, bench.num_parameters)
  said.say(
    [
      running.begin(phase, bench, folder.path),
      *reporting.mechanism_notes(
        mechanism, phase.leg.users, chosen.task_settings.user_note
      ),
      *reporting.outlook_notes(mechanism, chosen.privacy_settings, deployment),
    ]
  )
  process = chosen.algorithm.build(
    bench.functional, chosen.algorithm_settings, mechanism
  )
  initial_state = None
  if before is None:
    ledger = ledger_lib.Ledger.of(mechanism)
    running.open_ledger(ledger)
  else:
    ledger = before.outcome.ledger
    initial_state = running.go_on(before, phase, bench, process, folder.path)
  outcome = train(
    program.Program(
      process=process,
      sampler=phase.sampler,
      client_data=cohort_data.CohortData(process, bench, phase.stream, bench.devices),
      evaluate=lambda weights: bench.evaluate(weights, 'validation'),
      mechanism=mechanism,
      total_rounds=phase.leg.last_round,
      rounds_per_eval=chosen.run.rounds_per_eval,
      rounds_per_checkpoint=chosen.machine.rounds_per_checkpoint,
      stop_after_round=chosen.machine.stop_after_round,
      rounds_before=phase.leg.rounds_before,
      others_rounds=phase.others_rounds,
      initial_state=initial_state,
      phase=phase.index,
      checkpoint_folder=phase.folder,
      user_group=phase.leg.users,
      selection=running.selection,
      devices=bench.devices,
    ),
    ledger,
    folder.path,
    runtime,
  )
  return course.PhaseEnd(phase, bench, mechanism, process, outcome)


def _check_reach(
  chosen: experiment.Experiment,
  bench: workbench.Workbench,
  runtime: execution.Runtime,
) -> None:
  """Refuses workers that would not find what devices keep, which is in files here."""
  if bench.devices is None or not chosen.machine.workers:
    return
  from tff_textpriv.runtime import shared_folders

  missing = list(shared_folders.who_misses(runtime, bench.devices.folder))
  if missing:
    raise settings.SettingsError(
      'workers',
      missing,
      f'--algo={chosen.algorithm.name} keeps what stays on devices in files, and these'
      f' hosts do not have ours of {bench.devices.folder}; use workers here, or'
      ' --device_store=disk with a --root_output_dir that all hosts have by that path',
    )


def _finish(
  running: course.Course,
  chosen: experiment.Experiment,
  end: course.PhaseEnd,
  folder: pathlib.Path,
) -> None:
  """Tests; writes results, model and card; prints them."""
  outcome = end.outcome
  figures = end.bench.test(outcome.selected_weights, outcome.rounds_done)
  metrics = {**figures, **end.bench.guesses()}
  privacy = reporting.write_card(chosen, outcome, end.mechanism, end.process, folder)
  more, summary = running.finish(end, metrics, folder)
  results = reporting.write_results(
    outcome,
    privacy,
    metrics,
    end.bench.to_keras(outcome.selected_weights),
    end.bench.usage(folder),
    folder,
    **more,
    **reporting.bytes_per_client(end.process),
  )
  advice = end.mechanism.advice_on_noise
  reporting.say_results(outcome, privacy, summary, results, advice, folder)
