import pytest

from tff_textpriv.text.normalize import normalize


@pytest.mark.parametrize(
  ('raw', 'expected'),
  [
    ('plain words', 'plain words'),
    ('  two \t spaces\r\nand lines  ', 'two spaces and lines'),
    ('bell\x07and\x00null', 'bell and null'),
    ('ﬁne ｆｕｌｌ width\u00a0space', 'fine full width space'),
    ('e\u0301', '\u00e9'),
    ('lone \ud800 surrogate', 'lone surrogate'),
    ('Case Stays', 'Case Stays'),
    (' \u3000\n', ''),
  ],
)
def test_text_is_brought_into_its_plain_form(raw, expected):
  assert normalize(raw) == expected


def test_normalizing_twice_changes_nothing():
  raw = ''.join(map(chr, range(0x3100)))
  assert normalize(normalize(raw)) == normalize(raw)
  assert normalize(raw) != raw
