import os
import pathlib

import pytest

from tff_textpriv.datasets import lm_text, plain_text
from tff_textpriv.text import corpus_marks, forms


@pytest.mark.parametrize(
  ('line', 'written'),
  [
    ('The <unk> season was 17 @-@ place .', 'The season was 17-place.'),
    ('1 @,@ 000 of 3 @.@ 5 % ( or so ) ;', '1,000 of 3.5% (or so);'),
    ("York 's club did n't , didn 't it ?", "York's club didn't, didn't it?"),
    ('He said " no " and " yes " .', 'He said "no" and "yes".'),
    ('<unk> <unk>', ''),
    ('a @-@b <unk>c', 'a @-@b <unk>c'),
  ],
)
def test_marks_of_corpora_are_undone(line, written):
  assert corpus_marks.undone(line) == written


def test_a_text_without_marks_stays_as_its_writer_spaced_it():
  lines = ['Voilà ; un texte .', 'Another one .']
  assert forms.AS_WRITTEN.of_public(lines) == lines
  with_mark = [*lines, 'well @-@ known']
  assert forms.AS_WRITTEN.of_public(with_mark)[0] == 'Voilà; un texte.'


def test_public_text_gets_the_letters_and_the_punctuation_of_users_text():
  lines = ["The <unk> well @-@ known York 's club . It did n't win , though ."]
  assert forms.SENTENCES.of_public(lines) == [
    "the well-known york's club .",
    "it didn't win , though .",
  ]
  # The form of corpora that are users' text themselves.
  assert forms.CORPUS.of_public(lines) == lines
  assert forms.LOWER_CORPUS.of_public(lines) == [lines[0].lower()]


@pytest.mark.parametrize(
  'form', [forms.AS_WRITTEN, forms.SENTENCES, forms.CORPUS, forms.LOWER_CORPUS]
)
def test_folding_leaves_texts_of_the_form_as_they_are(form):
  raw = 'Look at HTTP://a.b/c, it’s <b>Well-Known</b>!  Is it?'
  texts = form.split(raw)
  assert texts and [form.fold(text) for text in texts] == texts


def test_wikitext_as_public_text_is_like_prepared_posts():
  folder = os.environ.get('TFF_TEXTPRIV_DATA')
  if folder is None:
    pytest.skip('TFF_TEXTPRIV_DATA does not name a folder with real data')
  path = pathlib.Path(folder) / 'wikitext-2' / lm_text.WIKITEXT_2.validation
  lines = list(plain_text.read_lines(str(path)))
  texts = forms.SENTENCES.of_public(lines)
  found = {word for text in texts for word in text.split()}
  assert not found & {'<unk>', '@-@', '@,@', '@.@', 'The', 'It'}
  assert {'the', 'first', '.', '"'} <= found
  assert len(texts) > 2 * len(lines)
