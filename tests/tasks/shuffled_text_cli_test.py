"""Penn Treebank and WikiText-2 as commands, on the embedded twin and on files."""

import csv
import json
import pathlib

import pytest
import tensorflow as tf

from tff_textpriv import flags
from tff_textpriv.datasets import clients
from tff_textpriv.settings import IncompatibleSettingsError, SettingsError
from tff_textpriv.tasks import base, ptb, shuffled_text, wikitext2
from tff_textpriv.training import runner

_TINY = (
  '--num_users=40',
  '--num_clients=12',
  '--clients_per_round=4',
  '--vocab_size=300',
  '--max_eval_users=4',
  '--total_rounds=4',
  '--rounds_per_eval=1',
)


def _run(folder: pathlib.Path, *given: str, task=ptb.TASK) -> int:
  where = (
    f'--root_output_dir={folder.parent}',
    f'--experiment_name={folder.name}',
    f'--data_dir={folder.parent / "data"}',
  )
  return runner.run(base.parse(task, [*_TINY, *given, *where]))


def _json(file: pathlib.Path):
  return json.loads(file.read_text())


def _perplexities(folder: pathlib.Path) -> list[float]:
  with open(folder / 'metrics.csv', newline='') as file:
    return [float(row['validation_token_perplexity']) for row in csv.DictReader(file)]


@pytest.fixture(scope='module')
def root(tmp_path_factory) -> pathlib.Path:
  return tmp_path_factory.mktemp('runs')


def test_attentive_aggregation_learns_the_embedded_twin(root):
  folder = root / 'fed_att'
  assert _run(folder, '--algo=fed_att', '--dropout=0.1', '--target_perplexity=290') == 0
  perplexities = _perplexities(folder)
  # A model that knows nothing has a perplexity of 300.
  assert perplexities[-1] < 200 and perplexities[-1] < perplexities[0]
  results = _json(folder / 'results.json')
  best = min(range(4), key=perplexities.__getitem__)
  assert results['selected_round'] == best + 1
  reached = [n + 1 for n, value in enumerate(perplexities) if value <= 290]
  assert results['rounds_to_target'] == reached[0]
  assert 1 < results['test_token_perplexity'] < results['test_word_perplexity']
  card = _json(folder / 'privacy_card.json')
  assert card['headline'] == 'No formal guarantee'
  reasons = ' '.join(card['reasons'])
  assert 'add no noise' in reasons and 'users’ own text' in reasons
  with open(folder / 'metrics.csv', newline='') as file:
    row = next(csv.DictReader(file))
  # Four clients of as many sentences: hardly anybody stands out.
  assert row['attended_clients'] == '4.0' and row['left_out_clients'] == '0.0'
  assert float(row['attention_entropy']) == pytest.approx(1.386, abs=0.01)
  assert 0.25 <= float(row['distance_weight_max']) < 0.5


def test_the_local_mechanism_reaches_ledger_and_card(root):
  folder = root / 'private'
  given = ('--algo=fed_att', '--attention=layerwise', '--tokenizer_source=public')
  noise = ('--clip_norm=1', '--noise_magnitude=0.5', '--noise_stddev=10')
  assert _run(folder, *given, *noise, '--model=lstm_tiny') == 0
  card = _json(folder / 'privacy_card.json')
  assert card['formal_guarantee'] is True
  assert 'local differential privacy' in card['headline']
  assert card['plan']['sensitivity'] == 2 and card['plan']['noise_stddev'] == 5
  (entry,) = [entry for entry in card['ledger'] if entry['kind'] == 'local']
  # Nobody takes part more often than there are rounds, and somebody at least once.
  assert 1 <= entry['count'] <= 4
  assert card['epsilon'] == _json(folder / 'results.json')['epsilon'] > 0
  model = tf.keras.models.load_model(folder / 'model.keras')
  assert any(isinstance(layer, tf.keras.layers.LSTM) for layer in model.layers)


@pytest.fixture(scope='module')
def corpus(root) -> pathlib.Path:
  """The files of a little WikiText-2."""
  data = wikitext2.TASK.load(shuffled_text.ShuffledTextSettings(num_users=30), 0)
  folder = root / 'wikitext'
  folder.mkdir()
  for name, group in (
    ('train', data.train),
    ('valid', data.validation),
    ('test', data.test),
  ):
    lines = [text for user in group.client_ids for text in group.read(user)][:600]
    (folder / f'wiki.{name}.tokens').write_text('\n'.join([' = Title = ', *lines]))
  return folder


@pytest.mark.slow
def test_files_as_distributed_are_a_task(root, corpus):
  folder = root / 'files'
  given = ('--algo=fed_avg', f'--data={corpus}', '--total_rounds=1')
  assert _run(folder, *given, '--model=transformer_tiny', task=wikitext2.TASK) == 0
  assert _json(folder / 'config.json')['tokenizer_source'] == 'train'
  assert _json(folder / 'results.json')['test_num_words'] > 100
  with pytest.raises(clients.DataError, match='wiki.train.tokens: there is no such'):
    _run(root / 'missing', '--algo=fed_avg', f'--data={root}', task=wikitext2.TASK)


def test_the_vocabulary_does_not_know_words_of_the_test_text_alone(root, corpus):
  secret = corpus / 'wiki.test.tokens'
  text = secret.read_text()
  secret.write_text(text + '\n' + 'onlyintest ' * 500)
  folder = root / 'leak'
  given = ('--algo=fed_avg', f'--data={corpus}', '--total_rounds=1')
  assert _run(folder, *given, task=wikitext2.TASK) == 0
  secret.write_text(text)
  vocabulary = (folder / 'tokenizers' / '0.model').read_bytes()
  assert b'\nthe\n' in vocabulary and b'onlyintest' not in vocabulary


def test_central_privacy_is_refused_with_the_reason():
  with pytest.raises(flags.UsageError) as caught:
    base.parse(ptb.TASK, ['--algo=fed_att', '--target_epsilon=2'])
  assert '--target_epsilon is not a flag of --algo=fed_att' in str(caught.value)
  assert 'one user change the weights of all others' in str(caught.value)
  # Other foreign flags need no such explanation.
  with pytest.raises(flags.UsageError) as caught:
    base.parse(ptb.TASK, ['--algo=fed_att', '--proximal_strength=2'])
  assert 'weights of all others' not in str(caught.value)


def test_a_promise_that_the_vocabulary_would_break_is_refused(root):
  noise = ('--clip_norm=1', '--noise_magnitude=0.5')
  with pytest.raises(IncompatibleSettingsError, match='tokenizer_source=train'):
    _run(root / 'refused', '--algo=fed_att', *noise)
  with pytest.raises(SettingsError, match='noise_magnitude=2'):
    base.parse(ptb.TASK, ['--algo=fed_att', '--noise_magnitude=2'])


def test_a_download_is_refused_with_what_to_do_instead():
  chosen = shuffled_text.ShuffledTextSettings(data='download')
  with pytest.raises(SettingsError, match='Penn Treebank.*ptb.train.txt'):
    ptb.TASK.load(chosen, 0)


def test_the_defaults_are_the_rounds_of_the_paper():
  experiment = base.parse(ptb.TASK, ['--algo=fed_att'])
  assert experiment.run.total_rounds == 50 and experiment.run.clients_per_round == 10
  assert experiment.run.cohort_sampling == 'fixed'
  assert experiment.task_settings.num_clients == 100
  data = ptb.TASK.load(shuffled_text.ShuffledTextSettings(num_users=50), 0)
  assert len(data.train.client_ids) == 100
  other = wikitext2.TASK.load(shuffled_text.ShuffledTextSettings(num_users=50), 0)
  assert other.train.fingerprint != data.train.fingerprint
