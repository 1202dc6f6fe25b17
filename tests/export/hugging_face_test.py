"""Hugging Face folders: read again, they are the model that was written."""

import json

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from tff_textpriv.export import hugging_face, runs
from tff_textpriv.models import encoder_checkpoints, encoders, pretrained
from tff_textpriv.tasks import agnews, sst2, stackoverflow

_TINY = ('--algo=central', '--max_train_examples=200', '--max_words=9')
_ENCODER = (*_TINY, '--model=encoder_tiny')


@pytest.fixture(scope='module', params=['distilbert', 'bert'])
def made(request, make_run, tmp_path_factory):
  """A run of a small encoder of either class; that of BERT has two classes."""
  if request.param == 'distilbert':
    return make_run(agnews.TASK, *_ENCODER)
  checkpoint = tmp_path_factory.mktemp('checkpoint')
  size = encoders.EncoderSize(8, 2, 2, 12, max_positions=16, kind='bert')
  model = encoders.Encoder(12, 0, 2, 8, 0.1, size)
  tensors = encoder_checkpoints.to_tensors(size, model.initial_weights(0))
  pieces = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', *'abcdef', '##a', '##7']
  (checkpoint / 'vocab.txt').write_text('\n'.join(pieces) + '\n')
  (checkpoint / 'config.json').write_text(
    json.dumps(encoder_checkpoints.size_config(size))
  )
  (checkpoint / 'model.safetensors').write_bytes(safetensors.numpy.save(tensors))
  return make_run(
    sst2.TASK, *_TINY, '--model=encoder_checkpoint', f'--checkpoint={checkpoint}'
  )


@pytest.fixture(scope='module')
def folder(made, tmp_path_factory):
  """The exported folder."""
  place = tmp_path_factory.mktemp('exported')
  for name, content in hugging_face.make_files(made.run).items():
    (place / name).write_bytes(content)
  return place


def test_a_folder_that_is_read_again_gives_equal_outputs(made, folder):
  size = encoder_checkpoints.read_size(folder)
  assert size == made.run.usage.encoder
  tensors = pretrained.read_tensors(folder)
  read = encoders.Encoder(1, 0, 2, size.width, 0.0, size, str(folder))
  body = read.initial_shared_weights(0)[:-4]
  table = encoder_checkpoints.read_table(folder, size)
  pieces = pretrained.read_vocabulary(folder)
  assert len(pieces) == len(table)
  split = ['[CLS]', *made.run.vocabulary[:3], 'never', '[SEP]']
  ids = [pieces.index(piece if piece in pieces else '[UNK]') for piece in split]
  hidden = encoders.hidden_states(
    size, body, tf.constant(table[ids][None]), tf.ones([1, len(ids)], tf.bool)
  )
  before = {'bert': 'pooler.dense', 'distilbert': 'pre_classifier'}[size.kind]
  activation = {'bert': np.tanh, 'distilbert': lambda x: np.maximum(x, 0)}[size.kind]

  def dense(name, value):
    return value @ tensors.take(f'{name}.weight').T + tensors.take(f'{name}.bias')

  found = dense('classifier', activation(dense(before, hidden[:, 0].numpy())))
  own = {token: row for row, token in enumerate(made.run.vocabulary)}
  own_ids = np.array([[own.get(piece, len(own)) for piece in split]], np.int32)
  expected = made.run.keras_model({'ids': own_ids}).numpy()
  if expected.shape[1] == 1:
    expected = np.concatenate([np.zeros_like(expected), expected], axis=1)
  np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_config_names_the_class_and_the_labels(made, folder):
  config = pretrained.read_config(folder)
  kind = made.run.usage.encoder.kind
  assert config['architectures'][0].lower() == f'{kind}forsequenceclassification'
  assert list(config['id2label'].values()) == list(made.run.usage.classes)
  assert config['vocab_size'] == len(pretrained.read_vocabulary(folder))


def test_the_tokenizer_file_has_the_ids_of_the_table(made, folder):
  content = json.loads((folder / 'tokenizer.json').read_text())
  pieces = pretrained.read_vocabulary(folder)
  assert [content['model']['vocab'][piece] for piece in pieces] == list(
    range(len(pieces))
  )
  assert {token['content'] for token in content['added_tokens']} == {
    '[CLS]', '[SEP]', '[UNK]', '[PAD]',
  }  # fmt: skip


def test_models_without_such_a_class_are_refused(make_run):
  others = [
    make_run(agnews.TASK, *_TINY),
    make_run(
      stackoverflow.TASK,
      '--algo=fed_avg', '--num_users=20', '--vocab_size=350', '--model=transformer_tiny',
    ),
  ]  # fmt: skip
  for made in others:
    with pytest.raises(runs.ExportError, match=r'encoder_\*'):
      hugging_face.make_files(made.run)
