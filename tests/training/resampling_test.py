"""Sample, fit, remap: what they keep, and that they never touch users' text."""

import dataclasses
import pathlib
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow_federated as tff

from tff_textpriv.datasets import clients, embedded
from tff_textpriv.iterative_processes import tokenizer_change
from tff_textpriv.models import language_models, sampling
from tff_textpriv.tasks import base, stackoverflow
from tff_textpriv.text import forms, remap, subword, tokenizers
from tff_textpriv.training import (
  language_workbench,
  phases,
  resampling,
  tokenizer_sources,
)


class _Forbidden(clients.ClientText):
  """Users whose text must not be read."""

  client_ids = ('ann', 'bob')
  fingerprint = 'forbidden'

  def read(self, client_id):
    raise AssertionError(f'the text of {client_id} was read')


def _chosen(*argv):
  return base.parse(
    stackoverflow.TASK,
    [
      '--algo=subword_resample',
      '--vocab_size=500',
      '--sample_tokens=4000',
      '--sample_max_length=20',
      '--total_rounds=4',
      '--clients_per_round=1',
      *argv,
    ],
  )


@pytest.fixture(scope='module')
def data():
  return embedded.build(0, 40, 10, 10, 1500)


@pytest.fixture(scope='module')
def public(data):
  return subword.train(data.public_text, 500)


def _bench(chosen, data, tokenizer):
  return language_workbench.LanguageWorkbench(
    chosen, data, tokenizer, '0.model', data.train.client_ids, pathlib.Path()
  )


def _learn(bench, chosen, weights, folder):
  return resampling.learn_tokenizer(
    bench,
    weights,
    chosen.algorithm_settings,
    index=1,
    vocab_size=chosen.task_settings.vocab_size,
    seed=chosen.run.seed,
    form=forms.SENTENCES,
    folder=folder,
  )


@pytest.mark.parametrize(
  ('tied', 'more_flags'),
  [
    pytest.param(True, [], marks=pytest.mark.slow),
    (False, ['--server_decay_rounds=10']),
  ],
)
def test_sampling_fitting_and_remapping_never_touch_private_text(
  tff_runtime, data, public, tmp_path, tied, more_flags
):
  forbidden = clients.FederatedText(
    'forbidden', _Forbidden(), _Forbidden(), _Forbidden()
  )
  chosen = _chosen(
    f'--data_dir={tmp_path}', f'--tied_embeddings={str(tied).lower()}', *more_flags
  )
  old = _bench(chosen, forbidden, public)
  weights = old.model.initial_weights(0)
  record = _learn(old, chosen, weights, tmp_path)
  new = _bench(chosen, forbidden, record.tokenizer)
  (phase, _) = phases.lay_out(chosen, ['ann', 'bob'])
  process, old_process = (
    chosen.algorithm.build(
      bench.functional, chosen.algorithm_settings, phase.mechanism(chosen)
    )
    for bench in (new, old)
  )
  # One round without clients gives the optimizer and the private mean a history.
  state = old_process.next(old_process.initialize(), []).state
  change = resampling.Remap(old, new, resampling.read_sample(tmp_path, 1))
  carried = resampling.carry_over(state, process, phase.mechanism(chosen), change)

  matrix = remap.remap_matrix(record.tokenizer, public)
  expected = remap.remap_weights(
    state.global_model_weights.trainable, old.model.vocabulary_axes, matrix
  )
  for ours, theirs in zip(
    carried.global_model_weights.trainable[:-1], expected[:-1], strict=True
  ):
    np.testing.assert_array_equal(ours, theirs)
  assert np.abs(carried.global_model_weights.trainable[-1] - expected[-1]).max() > 0.1
  optimizer_states = state.finalizer, carried.finalizer
  if more_flags:
    # The optimizer's state is inside that of its schedule.
    assert carried.finalizer['round_num'] == state.finalizer['round_num'] == 1
    optimizer_states = tuple(each['optimizer'] for each in optimizer_states)
  for moment in ('accumulator', 'preconditioner'):
    moments = remap.remap_weights(
      optimizer_states[0][moment], old.model.vocabulary_axes, matrix
    )
    assert np.abs(moments[0]).max() > 0
    for ours, theirs in zip(optimizer_states[1][moment], moments, strict=True):
      np.testing.assert_array_equal(ours, theirs)
  assert carried.aggregator['round'] == state.aggregator['round'] == 1
  # The carried state is one that the new process goes on from.
  assert process.next(carried, []).state.aggregator['round'] == 2
  with pytest.raises(AssertionError, match='was read'):
    new.evaluate(weights, 'validation')


def test_a_remap_to_the_same_tokenizer_changes_nothing(data, public, tmp_path):
  bench = _bench(_chosen(f'--data_dir={tmp_path}'), data, public)
  change = resampling.Remap(bench, bench, list(data.public_text[:50]))
  weights = bench.model.initial_weights(0)
  for ours, theirs in zip(change.averaged(weights), weights, strict=True):
    np.testing.assert_array_equal(ours, theirs)
  effect = resampling.remap_effect(change, weights, seed=1)
  assert effect['perplexity_with_averaged_bias'] == effect['perplexity_before']


class _Schedule(NamedTuple):
  round_num: int
  optimizer: dict


def test_moments_are_told_by_their_shapes_and_not_by_their_number():
  old = language_models.LstmLanguageModel(6, 2, 3, 1, tied=False)
  shapes = old.weight_shapes
  rng = np.random.default_rng(0)
  moment = tuple(rng.normal(size=shape).astype(np.float32) for shape in shapes)
  # As many as weights, and no moment: step sizes by layer, and the shapes in disorder.
  steps = tuple(np.float32(step) for step in range(len(shapes)))
  disorder = tuple(reversed(moment))
  State = tff.learning.templates.LearningAlgorithmState
  weights = tff.learning.models.ModelWeights(moment, ())
  finalizer = _Schedule(
    3, {'accumulator': moment, 'steps': steps, 'more': [disorder, moment]}
  )
  state = State(weights, 'distributor', 'work', 'aggregator', finalizer)
  fresh = State(weights, None, None, None, None)
  carried = tokenizer_change.carry_over(
    state, fresh, old, ['new'], lambda arrays: [2 * array for array in arrays]
  )
  assert carried.global_model_weights.trainable == ('new',)
  assert isinstance(carried.finalizer, _Schedule) and carried.finalizer.round_num == 3
  found = carried.finalizer.optimizer
  for ours, theirs in zip(found['accumulator'], moment, strict=True):
    np.testing.assert_array_equal(ours, 2 * theirs)
  for ours, theirs in zip(found['more'][1], moment, strict=True):
    np.testing.assert_array_equal(ours, 2 * theirs)
  assert found['steps'] is not None and list(found['steps']) == list(steps)
  for ours, theirs in zip(found['more'][0], disorder, strict=True):
    np.testing.assert_array_equal(ours, theirs)


def _frequencies(tokenizer, texts):
  targets = np.concatenate([ids[1:] for ids in tokenizer.encode(texts)])
  counts = np.bincount(targets, minlength=tokenizer.size)
  return counts / counts.sum()


def _expected(bench, weights, texts):
  """The mean of the probabilities that a model gives, token by token, in NumPy."""
  total, number = np.zeros(bench.model.vocab_size), 0
  for ids in bench.tokenizer.encode(texts):
    logits = bench.model.logits(weights, ids[np.newaxis, :-1]).numpy()[0]
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    total += (odds / odds.sum(axis=1, keepdims=True)).sum(axis=0)
    number += len(ids) - 1
  return total / number


def test_a_remapped_model_expects_tokens_as_often_as_the_sample_has_them(
  data, public, tmp_path
):
  texts = [t for user in data.train.client_ids for t in data.train.read(user)][:400]
  chosen = _chosen(f'--data_dir={tmp_path}')
  old, new = (
    _bench(chosen, data, tokenizer) for tokenizer in (public, subword.train(texts, 600))
  )
  # Contexts matter, if only at random; biases are the frequencies of the old tokens.
  weights = [2 * weight for weight in old.model.initial_weights(0)]
  weights[-1] = np.log(_frequencies(public, texts) + 1e-4).astype(np.float32)
  change = resampling.Remap(old, new, texts)
  real = _frequencies(new.tokenizer, texts)
  distances = [
    np.abs(_expected(new, made, texts) - real).sum()
    for made in (change.averaged(weights), change.weights(weights))
  ]
  assert distances[0] > 0.5 and distances[1] < 0.1
  # Only the biases are others.
  for ours, theirs in zip(
    change.weights(weights)[:-1], change.averaged(weights)[:-1], strict=True
  ):
    np.testing.assert_array_equal(ours, theirs)
  effect = resampling.remap_effect(change, weights, seed=0)
  assert (
    effect['perplexity_after_remap'] < 0.7 * effect['perplexity_with_averaged_bias']
  )


def test_samples_are_as_long_as_training_windows_and_what_is_lost_is_counted(
  data, public, tmp_path, capsys
):
  chosen = _chosen(f'--data_dir={tmp_path}', '--max_sentence_words=5')
  settings = dataclasses.replace(chosen.algorithm_settings, sample_max_length=None)
  chosen = dataclasses.replace(chosen, algorithm_settings=settings)
  bench = _bench(chosen, data, public)
  # All tokens are equally likely, and the end of a text is one of 500.
  weights = [np.zeros(shape, np.float32) for shape in bench.model.weight_shapes]
  record = _learn(bench, chosen, weights, tmp_path)
  facts = record.facts
  assert facts['cut_texts'] > 0.9 * facts['sampled_texts']
  mean = facts['sampled_tokens'] / (facts['sampled_texts'] + facts['empty_texts'])
  assert 19 < mean <= 20 == bench.windows.longest
  assert facts['empty_texts'] < 10
  said = f'{facts["cut_texts"]:,} were cut off, and {facts["empty_texts"]:,} empty'
  assert said in capsys.readouterr().out
  samples = (tmp_path / 'samples' / '1.txt').read_text()
  assert samples == samples.lower()


def test_records_survive_the_folder_and_half_written_ones_do_not_count(
  public, tmp_path
):
  record = tokenizer_sources.TokenizerRecord(1, 'sample', public, {'sampled_tokens': 7})
  record.write(tmp_path)
  restored = tokenizer_sources.read_record(tmp_path, 1)
  assert restored.source == 'sample' and restored.facts == {'sampled_tokens': 7}
  assert restored.tokenizer.fingerprint == public.fingerprint
  assert tokenizer_sources.read_record(tmp_path, 0) is None
  (tmp_path / 'tokenizers' / '1.json').unlink()
  assert tokenizer_sources.read_record(tmp_path, 1) is None


def test_the_same_seed_gives_the_same_tokenizer(data, public, tmp_path):
  chosen = _chosen(f'--data_dir={tmp_path}')
  bench = _bench(chosen, data, public)
  weights = bench.model.initial_weights(0)
  first, again = (_learn(bench, chosen, weights, tmp_path) for _ in range(2))
  assert first.tokenizer.fingerprint == again.tokenizer.fingerprint


def test_a_vocabulary_larger_than_the_samples_support_is_refused(
  data, public, tmp_path
):
  chosen = _chosen(f'--data_dir={tmp_path}', '--sample_tokens=50')
  bench = _bench(chosen, data, public)
  with pytest.raises(tokenizers.TokenizerError, match='--vocab_size=500'):
    resampling.learn_tokenizer(
      bench,
      # Weights of zero would sample all tokens alike; an end after each BOS samples none.
      [np.zeros(shape, np.float32) for shape in bench.model.weight_shapes[:-1]]
      + [np.where(np.arange(500) == 300, 50.0, -50.0).astype(np.float32)],
      chosen.algorithm_settings,
      index=1,
      vocab_size=500,
      seed=0,
      form=forms.SENTENCES,
      folder=tmp_path,
    )


def test_a_model_that_writes_nothing_is_refused(data, public, tmp_path):
  chosen = _chosen(f'--data_dir={tmp_path}')
  bench = _bench(chosen, data, public)
  silent = [np.zeros(shape, np.float32) for shape in bench.model.weight_shapes]
  silent[-1][tokenizers.EOS_ID] = 100
  with pytest.raises(sampling.SamplingError):
    _learn(bench, chosen, silent, tmp_path)


@pytest.mark.parametrize('source', ['public', 'oracle', 'heavy_hitters'])
@pytest.mark.parametrize('kind', ['bpe', 'word'])
def test_all_sources_make_both_kinds_of_tokenizers(tff_runtime, data, source, kind):
  chosen = _chosen(
    f'--tokenizer_source={source}', f'--tokenizer={kind}', '--vocab_size=300'
  )
  chosen = dataclasses.replace(
    chosen,
    task_settings=dataclasses.replace(
      chosen.task_settings, vocab_size=40 if kind == 'word' else 290
    ),
  )
  record = tokenizer_sources.make_first_tokenizer(chosen, data)
  assert record.tokenizer.kind == kind and record.source == source
  counts = tokenizer_sources.corpus_counts(record, chosen, data)
  assert sum(counts.values()) > 0
