"""Classification tasks: examples dealt to clients, and one phase."""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from tff_textpriv import metrics as metrics_lib
from tff_textpriv import settings as settings_lib
from tff_textpriv.datasets import labelled
from tff_textpriv.iterative_processes import algorithm
from tff_textpriv.privacy import ledger as ledger_lib
from tff_textpriv.training import (
  classifier_workbench,
  course,
  experiment,
  phases,
  selection,
  token_workbench,
  workbench,
)

# The figures of a test that are printed.
_FIGURES = (
  'auc',
  'accuracy',
  'global_accuracy',
  'local_accuracy',
  'received_local_accuracy',
)
_TWO_TESTS = (
  'global: users’ models on the same test examples, of all classes; local: each on test '
  'examples with the class shares of its user’s own, which it has trained on once more'
)
_TESTED_ON = {'num_examples': 'examples', 'num_users': 'users'}


class Classification(course.Course):
  """A run on a classification task."""

  def __init__(self, chosen: experiment.Experiment):
    """Reads the data and deals them to clients; see the base class."""
    super().__init__(chosen)
    _check_claim(chosen)
    _check_model(chosen)
    task = chosen.task_settings
    data: labelled.LabelledData = chosen.task.load(task, chosen.run.seed)
    train = classifier_workbench.kept_examples(
      data.train, task.max_train_examples, chosen.run.seed
    )
    self._data = dataclasses.replace(data, train=train)
    self._partition = classifier_workbench.deal(chosen, train)
    self.selection = selection.Selection(task.model_selection, metric='loss')

  @property
  def users(self) -> Sequence[str]:
    """See the base class."""
    return list(self._partition)

  @property
  def data_summary(self) -> Sequence[str]:
    """See the base class."""
    return self._data.summary

  def describe(self, all_phases: Sequence[phases.Phase]) -> list[str]:
    """See the base class."""
    sizes = [len(rows) for rows in self._partition.values()]
    data, sampler = self._data, all_phases[0].sampler
    lines = [
      f'data      {data.name}: {sum(sizes):,} train, {len(data.validation):,} '
      f'validation, {len(data.test):,} test examples'
    ]
    rounds = self._chosen.run.total_rounds
    if self._chosen.algorithm.gathers_data:
      return [*lines, f'rounds    {rounds} passes over all data in one place']
    return [
      *lines,
      f'clients   {len(sizes):,} of {min(sizes):,} to {max(sizes):,} examples '
      f'({self._chosen.task_settings.federation})',
      f'rounds    {rounds} of {sampler.cohort_size:,} clients, '
      f'{sampler.sampling} sampling',
    ]

  def make_bench(
    self, phase: phases.Phase, before: course.PhaseEnd | None, folder: pathlib.Path
  ) -> workbench.Workbench:
    """Makes the workbench that goes with what the model reads."""
    del phase, before  # There is one phase.
    parts = (self._chosen, self._data, self._partition, folder)
    if self._chosen.task_settings.reads_tokens:
      return token_workbench.TokenWorkbench(*parts)
    return classifier_workbench.ClassifierWorkbench(*parts)

  def begin(
    self, phase: phases.Phase, bench: workbench.Workbench, folder: pathlib.Path
  ) -> str:
    """See the base class: there is nothing to keep."""
    del phase, folder  # The model is all there is to say.
    task = self._chosen.task_settings
    read = 'words' if task.reads_tokens else task.representation
    if self._chosen.algorithm.keeps is algorithm.Keeps.MODEL_PART:
      read = 'users’ own words'
    model = self._chosen.model_name
    return f'model     {model} on {read}, {bench.num_parameters:,} parameters'

  def open_ledger(self, ledger: ledger_lib.Ledger) -> None:
    """Enters that a representation was fitted on users' text, if it was."""
    has_own = self._chosen.algorithm.keeps is algorithm.Keeps.MODEL_PART
    if self._chosen.task_settings.reads_clients_text and not has_own:
      ledger.note_no_guarantee('representation', 'fitted on the clients’ own text')

  def finish(
    self, end: course.PhaseEnd, metrics: Mapping[str, float], folder: pathlib.Path
  ) -> tuple[dict[str, Any], str]:
    """See the base class: a classifier leaves nothing more."""
    del folder  # Nothing is written.
    figures = ', '.join(
      f'{metric.label} {metric.shown(metrics[metric.name])}'
      for metric in map(metrics_lib.find, _FIGURES)
      if metric.name in metrics
    )
    if self.selection.rule == selection.BEST:
      figures += f', model of round {end.outcome.selected_round}'
    tested_on = ', '.join(
      f'{metrics[key]:,} {name}' for key, name in _TESTED_ON.items() if key in metrics
    )
    summary = f'test: {figures} ({tested_on})'
    if 'local_accuracy' in metrics:
      summary += f'\n{_TWO_TESTS}'
    return {}, summary


def _check_model(chosen: experiment.Experiment) -> None:
  """Refuses a model without the part that the algorithm leaves on the device."""
  if chosen.task_settings.reads_tokens or chosen.algorithm.has_whole_model:
    return
  raise settings_lib.IncompatibleSettingsError(
    f'--algo={chosen.algorithm.name} leaves an embedding of words on the device, '
    f'which --model={chosen.task_settings.model} of the task {chosen.task.name} does '
    'not have; it goes with the models bilstm_* and encoder_* of the tasks newsgroups, '
    'agnews, sst2 and custom'
  )


def _check_claim(chosen: experiment.Experiment) -> None:
  """Refuses a privacy claim that the representation or the federation breaks."""
  task = chosen.task_settings
  if not chosen.privacy_settings.claims:
    return
  if task.parts_users:
    raise settings_lib.IncompatibleSettingsError(
      f'--federation={task.federation} deals the texts of one user to many clients: a '
      'figure for clients would promise nothing to users. Use --federation=users, or for '
      'a comparison add --privacy_claim=false.'
    )
  if task.reads_clients_text:
    what = f'--representation={task.representation} is fitted on'
    if task.reads_tokens:
      what = 'without --vectors_file or --checkpoint, the vocabulary is made of'
    raise settings_lib.IncompatibleSettingsError(
      f'{what} the clients’ text, which no noise protects: there is no privacy figure to '
      'claim. For a comparison, add --privacy_claim=false.'
    )
