"""A sub-word tokenizer as Hugging Face `tokenizers` reads it: tokenizer.json."""

import importlib
import importlib.util
import json
import re
from collections.abc import Iterable
from typing import Any

from tff_textpriv.text import merges, subword, tokenizers

_MARK = subword.WORD_START


class DifferenceError(ValueError):
  """The two forms of a tokenizer do not encode, or decode, a text alike."""


def make(tokenizer: subword.SubwordTokenizer) -> bytes:
  """Writes the tokenizer.json of a tokenizer.

  It encodes as SentencePiece does, with BOS and EOS around the ids. Control ids are no
  "added tokens": those would be found in texts, too, and whoever types `</s>` must not end
  a text by it.

  Raises:
    TokenizerError: If the model is not plain BPE.
  """
  controls = tokenizer.pieces[: tokenizers.NUM_CONTROL_IDS]
  bos, eos = (controls[i] for i in (tokenizers.BOS_ID, tokenizers.EOS_ID))
  around = [_special(bos), _sequence('A'), _special(eos)]
  content: dict[str, Any] = {
    'version': '1.0',
    'truncation': None,
    'padding': None,
    'added_tokens': [],
    # Spaces as SentencePiece treats them, other white space as characters.
    'normalizer': {
      'type': 'Sequence',
      'normalizers': [
        _replace('String', _MARK, ' '),
        _replace('Regex', ' {2,}', ' '),
        _replace('Regex', r'\A | \z', ''),
        {'type': 'Prepend', 'prepend': _MARK},
        _replace('String', ' ', _MARK),
      ],
    },
    'pre_tokenizer': None,
    'post_processor': {
      'type': 'TemplateProcessing',
      'single': around,
      'pair': [*around, _special(bos), _sequence('B'), _special(eos)],
      'special_tokens': {
        name: {'id': name, 'ids': [number], 'tokens': [name]}
        for name, number in ((bos, tokenizers.BOS_ID), (eos, tokenizers.EOS_ID))
      },
    },
    'decoder': {
      'type': 'Sequence',
      'decoders': [
        _replace('Regex', rf'\A(?:{"|".join(map(re.escape, controls))})\z', ''),
        _replace('String', _MARK, ' '),
        {'type': 'ByteFallback'},
        {'type': 'Fuse'},
        {'type': 'Strip', 'content': ' ', 'start': 1, 'stop': 0},
      ],
    },
    'model': {
      'type': 'BPE',
      'dropout': None,
      'unk_token': controls[tokenizers.UNKNOWN_ID],
      'continuing_subword_prefix': None,
      'end_of_word_suffix': None,
      'fuse_unk': False,
      'byte_fallback': True,
      'vocab': {piece: number for number, piece in enumerate(tokenizer.pieces)},
      'merges': [' '.join(pair) for pair in merges.merges(merges.scores(tokenizer))],
    },
  }
  return (json.dumps(content, indent=1, ensure_ascii=False) + '\n').encode()


def can_be_checked() -> bool:
  """Tells whether the package `tokenizers` is there."""
  return importlib.util.find_spec('tokenizers') is not None


def check(
  content: bytes, tokenizer: subword.SubwordTokenizer, texts: Iterable[str]
) -> int:
  """Encodes and decodes texts with both forms of a tokenizer.

  Args:
    content: What `make` has made of it.
    tokenizer: The tokenizer.
    texts: The texts.

  Returns:
    The number of texts.

  Raises:
    DifferenceError: If the two differ. The text is not in the message.
  """
  # Not imported above: no requirement of the package, and only needed to check.
  package: Any = importlib.import_module('tokenizers')
  other = package.Tokenizer.from_str(content.decode())
  number = 0
  for number, text in enumerate(texts, 1):
    (ids,) = tokenizer.encode([text])
    theirs = other.encode(text).ids
    if theirs != ids.tolist():
      raise DifferenceError(
        f'tokenizer.json and the SentencePiece model encode text {number} of the check '
        f'differently: {len(theirs)} and {len(ids)} ids'
      )
    if other.decode(theirs) != tokenizer.decode(ids.tolist()):
      raise DifferenceError(
        f'tokenizer.json and the SentencePiece model decode the {len(ids)} ids of text '
        f'{number} of the check differently'
      )
  return number


def _replace(kind: str, pattern: str, content: str) -> dict[str, Any]:
  return {'type': 'Replace', 'pattern': {kind: pattern}, 'content': content}


def _special(name: str) -> dict[str, Any]:
  return {'SpecialToken': {'id': name, 'type_id': 0}}


def _sequence(name: str) -> dict[str, Any]:
  return {'Sequence': {'id': name, 'type_id': 0}}
