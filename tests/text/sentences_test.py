import pytest

from tff_textpriv.text import sentences


@pytest.mark.parametrize(
  ('raw', 'expected'),
  [
    ('', []),
    (' \n\n ', []),
    ("It's a well-known fact. Is it?", ["it's a well-known fact .", 'is it ?']),
    ('First line\n\nsecond line', ['first line', 'second line']),
    ('a &lt; b &amp;&amp; c', ['a < b && c']),
    ('Use <b>bold</b><br/>text <sigh>', ['use bold text < sigh >']),
    ('See [the docs](http://a.b/c_(d)) now', ['see the docs now']),
    ('See [this][1].\r\n\r\n  [1]: http://a.b/', ['see this .']),
    ('Look at http://a.b/c?d=e, please.', ['look at <URL> , please .']),
    ('(https://a.b/c)', ['( <URL> )']),
    ('**Bold** and `code`', ['bold and code']),
    ('> quoted\n## Heading', ['quoted', 'heading']),
    ('Wait... what?!', ['wait ... what ? !']),
    ('He said “it’s fine”', ['he said " it\'s fine "']),
    ('Costs $5. 3 of them', ['costs $ 5 .', '3 of them']),
  ],
)
def test_posts_become_clean_sentences(raw, expected):
  assert sentences.sentences(raw) == expected
