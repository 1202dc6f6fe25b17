"""Encoders as Hugging Face folders: config, weights and tokenizer."""

import json
from typing import Any

import numpy as np
import safetensors.numpy

from tff_textpriv.export import runs, text_ops
from tff_textpriv.models import encoder_checkpoints, encoders
from tff_textpriv.models import usage as usage_lib
from tff_textpriv.models.sequence_presets import EncoderSize
from tff_textpriv.text import tokens

_PAD = '[PAD]'
_CLASSES = {
  'bert': 'BertForSequenceClassification',
  'distilbert': 'DistilBertForSequenceClassification',
}
# The exact GELU, under the names of the two classes.
_ACTIVATIONS = {'bert': {'hidden_act': 'gelu'}, 'distilbert': {'activation': 'gelu'}}


def make_files(run: runs.FinishedRun) -> dict[str, bytes]:
  """Makes the files of the folder, by name.

  Raises:
    ExportError: If there is no such class for the model.
  """
  run.check_whole()
  usage = run.usage
  if isinstance(usage, usage_lib.LanguageModelUsage) or usage.encoder is None:
    raise runs.ExportError(
      f'--format=hf: there is no class of Hugging Face’s that is {usage.model}; this '
      'format is for the models encoder_* (BERT, DistilBERT) of the tasks newsgroups, '
      'agnews, sst2 and custom (with --label_column). saved_model, keras and tflite are for all'
    )
  model = encoders.Encoder(
    len(run.vocabulary) + 1, 0, len(usage.classes), usage.encoder.width, 0.0,
    usage.encoder,
  )  # fmt: skip
  weights = model.from_keras(run.keras_model)
  pieces = [*run.vocabulary, tokens.UNKNOWN]
  for mark in (tokens.START, tokens.END, _PAD):
    if mark not in pieces:
      # As everywhere, what is not in the vocabulary has the row of unknown tokens.
      pieces.append(mark)
      weights[0] = np.concatenate([weights[0], weights[0][len(run.vocabulary)][None]])
  tensors = encoder_checkpoints.to_tensors(usage.encoder, weights)
  if len(usage.classes) == 2:
    # One logit of the second class is two logits, of which the first is 0.
    for name in ('classifier.weight', 'classifier.bias'):
      tensors[name] = np.concatenate([np.zeros_like(tensors[name]), tensors[name]])
  return {
    'config.json': _json(_config(usage, usage.encoder, pieces)),
    'model.safetensors': safetensors.numpy.save(
      tensors,
      metadata={'format': 'pt'},  # Without it transformers refuses the file.
    ),
    'vocab.txt': ''.join(f'{piece}\n' for piece in pieces).encode(),
    'tokenizer.json': _json(_tokenizer(usage.encoding, pieces)),
    'tokenizer_config.json': _json(
      {
        'tokenizer_class': 'PreTrainedTokenizerFast',
        'do_lower_case': not usage.encoding.is_cased,
        'model_max_length': usage.encoding.max_tokens,
        'unk_token': tokens.UNKNOWN,
        'cls_token': tokens.START,
        'sep_token': tokens.END,
        'pad_token': _PAD,
      }
    ),
  }


def _config(
  usage: usage_lib.ClassifierUsage, size: EncoderSize, pieces: list[str]
) -> dict[str, Any]:
  """Writes the config.json of the model's class."""
  names = {name: number for number, name in enumerate(usage.classes)}
  return {
    'architectures': [_CLASSES[size.kind]],
    **encoder_checkpoints.size_config(size),
    **_ACTIVATIONS[size.kind],
    'vocab_size': len(pieces),
    'pad_token_id': pieces.index(_PAD),
    'id2label': {str(number): name for name, number in names.items()},
    'label2id': names,
    'torch_dtype': 'float32',
  }


def _tokenizer(encoding: usage_lib.Encoding, pieces: list[str]) -> dict[str, Any]:
  """Writes the tokenizer.json that splits texts as `text/` does."""
  ids = {piece: number for number, piece in enumerate(pieces)}
  marks = (tokens.START, tokens.END, tokens.UNKNOWN, _PAD)
  small: list[dict[str, Any]] = [] if encoding.is_cased else [{'type': 'Lowercase'}]
  model: dict[str, Any] = {'unk_token': tokens.UNKNOWN, 'vocab': ids}
  if encoding.kind == 'wordpieces':
    if not encoding.is_cased:
      small += [{'type': 'NFD'}, _replace(text_ops.ACCENT, '')]
    splits = [
      {'type': 'WhitespaceSplit'},
      _split(text_ops.MARK, 'Isolated', invert=False),
    ]
    model |= {
      'type': 'WordPiece',
      'continuing_subword_prefix': '##',
      'max_input_chars_per_word': 100,
    }
  else:
    splits = [_split(text_ops.TOKEN, 'Removed', invert=True)]
    model |= {'type': 'WordLevel'}
  return {
    'version': '1.0',
    'truncation': None,
    'padding': None,
    'added_tokens': [
      {
        'id': ids[mark],
        'content': mark,
        'single_word': False,
        'lstrip': False,
        'rstrip': False,
        'normalized': False,
        'special': True,
      }
      for mark in marks
    ],
    'normalizer': {
      'type': 'Sequence',
      'normalizers': [
        {'type': 'NFKC'},
        _replace(text_ops.SPACES, ' '),
        *small,
      ],
    },
    'pre_tokenizer': {'type': 'Sequence', 'pretokenizers': splits},
    'post_processor': {
      'type': 'TemplateProcessing',
      'single': [_special(tokens.START), _sequence('A'), _special(tokens.END)],
      'pair': [
        *[_special(tokens.START), _sequence('A'), _special(tokens.END)],
        *[_sequence('B'), _special(tokens.END)],
      ],
      'special_tokens': {
        mark: {'id': mark, 'ids': [ids[mark]], 'tokens': [mark]}
        for mark in (tokens.START, tokens.END)
      },
    },
    'decoder': None,
    'model': model,
  }


def _replace(pattern: str, content: str) -> dict[str, Any]:
  return {'type': 'Replace', 'pattern': {'Regex': pattern}, 'content': content}


def _split(pattern: str, behavior: str, *, invert: bool) -> dict[str, Any]:
  return {
    'type': 'Split',
    'pattern': {'Regex': pattern},
    'behavior': behavior,
    'invert': invert,
  }


def _special(mark: str) -> dict[str, Any]:
  return {'SpecialToken': {'id': mark, 'type_id': 0}}


def _sequence(name: str) -> dict[str, Any]:
  return {'Sequence': {'id': name, 'type_id': 0}}


def _json(content: dict[str, Any]) -> bytes:
  return (json.dumps(content, indent=2, ensure_ascii=False) + '\n').encode()
