"""Runs an experiment on a language-model task, from data to privacy card."""

import json
import pathlib
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from tff_textpriv import randomness
from tff_textpriv.datasets import batching, clients, encoded
from tff_textpriv.iterative_processes import learning_model
from tff_textpriv.models import language_models
from tff_textpriv.privacy import card, mechanism, plans
from tff_textpriv.privacy import ledger as ledger_lib
from tff_textpriv.runtime import cohorts, execution
from tff_textpriv.text import subword, tokenizers
from tff_textpriv.training import evaluation, experiment, output, program, settings

# What a ledger without a guarantee is opened with; no figure comes of it.
_NOMINAL_DELTA = 1e-6


def run(chosen: experiment.Experiment) -> int:
  """Trains, evaluates on test users, and writes the output folder.

  Args:
    chosen: The experiment.

  Returns:
    The command's exit code: 0, or 128 plus the signal that interrupted.
  """
  data = chosen.task.load(chosen.task_settings, chosen.run.seed)
  data.check_disjoint()
  sampler = cohorts.CohortSampler(
    data.train.client_ids,
    chosen.run.clients_per_round,
    chosen.run.cohort_sampling,
    chosen.run.seed,
  )
  plan = _plan(chosen, len(data.train.client_ids))
  folder = output.OutputFolder(chosen.folder)
  folder.check_config(chosen.config)
  tokenizer = _tokenizer(chosen.task_settings, data, folder.path)
  ledger = _opening_ledger(chosen, plan)
  workbench = _Workbench(chosen, data, tokenizer)
  _say_what_runs(chosen, data, workbench, plan)

  with execution.execution(
    chosen.machine.num_workers,
    chosen.machine.workers,
    chosen.machine.max_concurrent_clients,
    log_dir=folder.path,
  ) as runtime:
    outcome = program.train(
      program.Program(
        process=chosen.algorithm.build(
          learning_model.from_language_model(
            workbench.model, workbench.model.initial_weights(chosen.run.seed)
          ),
          chosen.algorithm_settings,
          plan,
          chosen.run.seed,
        ),
        sampler=sampler,
        client_data=workbench.client_batches,
        evaluate=lambda weights: workbench.evaluate(weights, 'validation'),
        plan=plan,
        total_rounds=chosen.run.total_rounds,
        rounds_per_eval=chosen.run.rounds_per_eval,
        rounds_per_checkpoint=chosen.machine.rounds_per_checkpoint,
      ),
      ledger,
      folder.path,
      runtime,
    )
  if outcome.ended == 'interrupted':
    print(
      f'stopped after round {outcome.rounds_done}; repeat the command to go on',
      file=sys.stderr,
    )
    return 128 + (outcome.signal_number or 0)
  _finish(chosen, workbench, plan, outcome, folder.path)
  return 0


class _Workbench:
  """The encoded text, the model and the evaluator of one tokenizer."""

  def __init__(
    self,
    chosen: experiment.Experiment,
    data: clients.FederatedText,
    tokenizer: tokenizers.Tokenizer,
  ):
    task: settings.LanguageModelSettings = chosen.task_settings
    cache_dir = pathlib.Path(task.data_dir)
    self._chosen = chosen
    self._train = encoded.EncodedClients(
      data.train,
      tokenizer,
      max_tokens_per_user=task.max_tokens_per_user,
      cache_dir=cache_dir,
    )
    # Not cut off by tokens: all tokenizers must be compared on the same text.
    self._held_out = {
      'validation': encoded.EncodedClients(
        data.validation, tokenizer, cache_dir=cache_dir
      ),
      'test': encoded.EncodedClients(data.test, tokenizer, cache_dir=cache_dir),
    }
    self.model = language_models.build(task.model, tokenizer.size, task.tied_embeddings)
    self._evaluator = evaluation.LanguageModelEvaluator(
      self.model, tokenizer, task.max_sentence_length
    )

  def client_batches(
    self, client_ids: Sequence[str], round_number: int
  ) -> list[list[batching.Batch]]:
    """Makes the batches of a round's clients."""
    algorithm = self._chosen.algorithm_settings
    return [
      batching.training_batches(
        self._train.posts(client_id),
        batch_size=algorithm.client_batch_size,
        num_epochs=getattr(algorithm, 'client_epochs_per_round', 1),
        max_length=self._chosen.task_settings.max_sentence_length,
        rng=randomness.generator(
          self._chosen.run.seed, 'batches', round_number, client_id
        ),
      )
      for client_id in client_ids
    ]

  def evaluate(self, weights: Sequence[np.ndarray], group: str) -> dict[str, float]:
    """Evaluates weights on the `validation` or the `test` users."""
    users = self._held_out[group]
    most = self._chosen.task_settings.max_eval_users
    ids = users.client_ids
    if len(ids) > most:
      rng = randomness.generator(self._chosen.run.seed, 'evaluation', group)
      ids = [ids[i] for i in sorted(rng.choice(len(ids), most, replace=False))]
    return self._evaluator.evaluate(weights, users, ids)


def _plan(chosen: experiment.Experiment, population: int) -> plans.CentralDpPlan | None:
  """Makes the privacy plan of an algorithm that has one; refuses a false claim."""
  if chosen.privacy_settings is None:
    return None
  plan = plans.make_plan(
    chosen.privacy_settings,
    sampling=chosen.run.cohort_sampling,
    simulated_population=population,
    simulated_cohort=chosen.run.clients_per_round,
    rounds=chosen.run.total_rounds,
  )
  if chosen.task_settings.tokenizer_source == 'oracle' and plan.claim:
    raise mechanism.PrivacyError(
      '--tokenizer_source=oracle trains the tokenizer on users’ text, which no noise '
      'protects: there is no privacy figure to claim. For a comparison, add '
      '--privacy_claim=false.'
    )
  return plan


def _tokenizer(
  task: settings.LanguageModelSettings,
  data: clients.FederatedText,
  folder: pathlib.Path,
) -> tokenizers.Tokenizer:
  """Reads the run's tokenizer, or trains it and keeps it in the folder."""
  file = folder / 'tokenizers' / 'initial.model'
  if file.exists():
    return subword.SubwordTokenizer(file.read_bytes())
  texts: Iterator[str]
  if task.tokenizer_source == 'oracle':
    texts = (text for user in data.train.client_ids for text in data.train.read(user))
  elif data.public_text is not None:
    texts = iter(data.public_text)
  else:
    raise clients.DataError(
      f'--data={task.data} brings no public text for the tokenizer: name a text file '
      'with --public_data=FILE'
    )
  tokenizer = subword.train(texts, task.vocab_size)
  file.parent.mkdir(exist_ok=True)
  output.write_atomically(file, tokenizer.to_bytes())
  return tokenizer


def _opening_ledger(
  chosen: experiment.Experiment, plan: plans.CentralDpPlan | None
) -> ledger_lib.Ledger:
  """Opens the ledger with what is settled before the first round."""
  ledger = (
    ledger_lib.Ledger(_NOMINAL_DELTA)
    if plan is None
    else ledger_lib.Ledger(plan.delta, plan.accountant)
  )
  if plan is None:
    ledger.note_no_guarantee(
      chosen.algorithm.name, 'updates are averaged without clipping and without noise'
    )
  if chosen.task_settings.tokenizer_source == 'oracle':
    ledger.note_no_guarantee('tokenizer', 'trained on the users’ own text')
  else:
    ledger.charge_post_processing('tokenizer', 'trained on public text')
  return ledger


def _say_what_runs(
  chosen: experiment.Experiment,
  data: clients.FederatedText,
  workbench: _Workbench,
  plan: plans.CentralDpPlan | None,
) -> None:
  """Prints what is about to be trained, on whom, and under which promise."""
  users = ', '.join(
    f'{len(getattr(data, group).client_ids):,} {group}'
    for group in ('train', 'validation', 'test')
  )
  print(f'{chosen.task.name} with {chosen.algorithm.name} in {chosen.folder}')
  print(f'  data      {data.name}: {users} users')
  print(
    f'  model     {chosen.task_settings.model}, '
    f'{workbench.model.num_parameters:,} parameters, {workbench.model.vocab_size:,} tokens'
  )
  print(
    f'  rounds    {chosen.run.total_rounds} of {chosen.run.clients_per_round} users'
  )
  if plan is None:
    print('  privacy   no formal guarantee')
    return
  print(
    f'  privacy   clip {plan.clip:g}, noise multiplier {plan.noise_multiplier:.4g}, '
    f'{plan.sampling} cohorts of {plan.cohort:,} in {plan.population:,} users'
  )
  for warning in plan.warnings:
    print(f'  note      {warning}')


def _finish(
  chosen: experiment.Experiment,
  workbench: _Workbench,
  plan: plans.CentralDpPlan | None,
  outcome: program.Outcome,
  folder: pathlib.Path,
) -> None:
  """Evaluates on test users; writes results, model and privacy card; prints them."""
  metrics = workbench.evaluate(outcome.weights, 'test')
  privacy = card.privacy_card(
    outcome.ledger,
    plan,
    task=chosen.task.name,
    algo=chosen.algorithm.name,
    facts={'rounds_done': outcome.rounds_done},
  )
  card.write(privacy, folder)
  results = {
    'rounds': outcome.rounds_done,
    'ended': outcome.ended,
    'epsilon': privacy['epsilon'],
    **{f'test_{name}': value for name, value in metrics.items()},
  }
  output.write_atomically(folder / 'results.json', json.dumps(results, indent=2) + '\n')
  workbench.model.to_keras(outcome.weights).save(folder / 'model.keras')
  if outcome.ended == 'budget':
    print(
      f'stopped after round {outcome.rounds_done}: one more would exceed the budget'
    )
  print(
    f'test users: word accuracy {metrics["word_accuracy"]:.4f}, perplexity per word '
    f'{metrics["word_perplexity"]:.2f} ({metrics["num_words"]:,} words)'
  )
  print(f'privacy: {privacy["headline"]}')
  print(f'written: {folder}/ (metrics.csv, results.json, privacy_card.md, model.keras)')
