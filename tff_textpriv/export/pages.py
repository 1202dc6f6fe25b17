"""The README of an export: how to use the model, and what is in it."""

import pathlib

import tensorflow as tf

from tff_textpriv import files, run_folder
from tff_textpriv.export import runs
from tff_textpriv.models import usage as usage_lib

FILE = 'README.md'
TITLE = '# Exported model: '

_VERSION = '.'.join(tf.__version__.split('.')[:2])
_NEEDS = {
  'keras': f'tensorflow {_VERSION}',
  'saved_model': f'tensorflow and tensorflow-text {_VERSION}',
  'tflite': 'tensorflow, or the TensorFlow Lite runtime of a device',
  'hf': 'transformers and torch',
  'tokenizer': 'tokenizers or sentencepiece',
}
# Where the words of a tokenizer come from, by the source in its record.
_ORIGINS = {
  'public': 'from public text.',
  'sample': 'from text that the model itself wrote.',
  'heavy_hitters': 'that users reported under local differential privacy.',
  'oracle': 'from the users’ own text.',
  'train': 'from the training text.',
}


def readme(run: runs.FinishedRun, format_name: str) -> str:
  """Writes the page; its example is for a program that runs in the folder of the export.

  Args:
    run: The run.
    format_name: The format of the export.
  """
  card = run_folder.read_object(run.folder / run_folder.CARD)
  weights = '' if format_name == 'tokenizer' else 'the weights of the model and '
  parts = [
    TITLE + run.name,
    f'Needs {_NEEDS[format_name]}; neither tff_textpriv nor TensorFlow Federated.',
    _code(example(run, format_name, pathlib.Path('.'))),
    'Paths are those of a program that runs in this folder, wherever that is.',
    _answer(run, format_name),
    '## Privacy',
    f'**{card.get("headline", "no formal guarantee")}**: see [privacy_card.md](privacy_card.md).',
    f'This folder holds {weights}{_held_words(run)} It holds no other text of users.',
  ]
  return '\n\n'.join(part for part in parts if part) + '\n'


def example(run: runs.FinishedRun, format_name: str, output: pathlib.Path) -> str:
  """Writes Python that loads an export and uses it: two lines."""
  call = "suggest(tf.constant(['how do i']))"
  if isinstance(run.usage, usage_lib.ClassifierUsage):
    width = run.usage.dense_width
    dense = f', tf.zeros([1, {width}])' if width else ''
    call = f"classify(tf.constant(['a text']){dense})"
  lines = {
    'saved_model': [
      f"import tensorflow as tf, tensorflow_text; model = tf.saved_model.load('{output}')",
      f'print(model.{call})',
    ],
    'keras': [
      'import tensorflow as tf',
      f"model = tf.keras.models.load_model('{output}/{run_folder.MODEL}', compile=False)",
    ],
    'tflite': [
      'import tensorflow as tf',
      f"model = tf.lite.Interpreter('{output}/model.tflite').get_signature_runner()",
    ],
    'hf': [
      'from transformers import pipeline',
      f"print(pipeline('text-classification', '{output}')('a text'))",
    ],
    'tokenizer': [
      'from tokenizers import Tokenizer',
      f"print(Tokenizer.from_file('{output}/tokenizer.json').encode('how do i').ids)",
    ],
  }
  return '\n'.join(lines[format_name])


def _answer(run: runs.FinishedRun, format_name: str) -> str:
  """Says what the model reads and returns."""
  usage = run.usage
  local = ''
  if getattr(usage, 'stays_local', '') == 'tokens':
    local = (
      ' The vectors of tokens with digits stay on users’ devices; here they are as they '
      'were before training.'
    )
  if format_name == 'tflite':
    return (
      'The model reads numbers, one text at a time: `encoding.json` says how they are '
      f'made of a text and what comes out.{local}'
    )
  if isinstance(usage, usage_lib.LanguageModelUsage):
    if format_name == 'tokenizer':
      return (
        '`tokenizer.json` (Hugging Face) puts BOS (2) before the ids of a text and EOS '
        '(3) behind them. `tokenizer.model` is the same as a SentencePiece model, which '
        'does not. Both read text that is in NFKC, on one line, without control '
        'characters, as all text of the run was.'
      )
    if format_name == 'keras':
      return (
        'It reads ids of `tokenizer.model`, int32 [batch, time], BOS (2) first, and '
        'returns logits [batch, time, ids] of the next ids. `model.json` says more.'
      )
    return (
      '`suggest` takes raw strings [batch] and returns the `words` [batch, number] that '
      'are most likely to follow, and their `probabilities`. `complete` does so for a '
      'word that is begun. `score` returns the `log_probability` of whole texts, '
      '`num_words` and the `perplexity` per word.'
    )
  if usage.stays_local == 'table':
    return (
      'Vocabularies and embeddings stay on users’ devices; this is the part of the '
      'model above them. It reads vectors of words, float32 [batch, time, width], zeros '
      'where there is no word, and returns logits.'
    )
  if format_name == 'hf':
    return (
      'Tokenizer and model are those of the run. Texts are cut off after '
      f'{usage.encoding.max_tokens} tokens.{local}'
    )
  if format_name == 'keras':
    inputs = '`ids`'
    if usage.encoding.vectors:
      inputs = 'the mean vector `dense`' + usage.encoding.length_in_words
    beside = ' and the side features `dense`' if usage.dense_width else ''
    return (
      f'It reads a dictionary of {inputs}{beside}, and returns logits; of two classes '
      f'that of the second. `model.json` says how they are made of a text.{local}'
      f'{_hash_formula(usage)}'
    )
  features = (
    f' and their side features, float32 [batch, {usage.dense_width}],'
    if usage.dense_width
    else ''
  )
  return (
    f'`classify` takes raw strings [batch]{features} and returns the most likely '
    f'`label`, the `probabilities` [batch, {len(usage.classes)}] and the names of the '
    f'`classes`.{local}'
  )


def _hash_formula(usage: usage_lib.ClassifierUsage) -> str:
  """Says how words become numbers, where they are hashed."""
  encoding = usage.encoding
  if encoding.hash_base is None or encoding.hash_buckets is None:
    return ''
  kept = (
    'each number once, in any order'
    if encoding.max_tokens is None
    else f'the first {encoding.max_tokens} of them, in their order'
  )
  return (
    '\n\nA text is put into small letters, what is neither a letter from a to z nor white '
    'space is dropped, and it is split on white space. A word with the letters s0, s1, ... '
    f'(a = 1, ..., z = 26) has the number (s0 + s1 P + s2 P^2 + ...) mod M with P = '
    f'{encoding.hash_base} and M = {encoding.hash_buckets}; `ids` is int32 [batch, words], '
    f'{kept}, padded with M.'
  )


def _held_words(run: runs.FinishedRun) -> str:
  """Says which words are in an export, and whose they are."""
  usage = run.usage
  if isinstance(usage, usage_lib.LanguageModelUsage):
    record = run.file(usage.tokenizer).with_suffix('.json')
    source = files.read_json(record).get('source')
    if not isinstance(source, str) or source not in _ORIGINS:
      raise files.FileError(f'{record}: not the record of a tokenizer')
    return f'its tokenizer, a list of words or pieces of words {_ORIGINS[source]}'
  encoding = usage.encoding
  if encoding.vocabulary is None and encoding.vectors is None:
    return 'no vocabulary.'
  if run.config.get('checkpoint') or run.config.get('vectors_file'):
    return 'a public vocabulary.'
  return (
    'its vocabulary, which was made of the clients’ own text: whoever has it reads '
    'words that users wrote.'
  )


def _code(lines: str) -> str:
  return f'```python\n{lines}\n```'
