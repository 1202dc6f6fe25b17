"""Markup: whatever is not markup is escaped."""

from markupsafe import Markup

from tff_textpriv.reports import markdown
from tff_textpriv.reports.markup import element, join, table

_EVIL = '<script>alert("x")</script>'


def test_text_and_attributes_are_escaped_and_markup_is_not():
  inner = element('b', _EVIL)
  assert inner == '<b>&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt;</b>'
  outer = element('p', inner, None, 3, class_='a', title='"><i>', open=True)
  assert outer == f'<p class="a" title="&#34;&gt;&lt;i&gt;" open>{inner}3</p>'


def test_nothing_is_not_a_word():
  assert element('p', None, join([None, 'a', None])) == '<p>a</p>'


def test_text_does_not_become_markup_by_being_added():
  assert element('p', Markup('<b>') + '<i>') == '<p><b>&lt;i&gt;</p>'
  assert element('p', f'{Markup("<b>")}x') == '<p>&lt;b&gt;x</p>'
  assert join(['<b>', '<i>'], '<') == '&lt;b&gt;&lt;&lt;i&gt;'


def test_a_table_has_its_cells_in_a_box_that_scrolls():
  page = table(['a', 'b'], [['<', 1]], numeric=[1])
  assert page.startswith('<div class="scroll"><table>')
  assert '<th scope="col">a</th>' in page
  assert '<td>&lt;</td><td class="number">1</td>' in page


def test_markdown_of_cards_becomes_html():
  text = (
    '# Title\n\n**Bold** and `code`,\nsecond line.\n\n'
    '| a | b |\n| --- | --- |\n| x \\| y | 1.5 |\n\n- one\n- two\n\n'
    '> **Note.** Look.\n\n```\npython -m x\n\ny\n```\n\n    indented\n\n![plot](x.png)\n'
  )
  page = markdown.to_html(text, top_level=4)
  assert page == (
    '<h4>Title</h4>'
    '<p><strong>Bold</strong> and <code>code</code>, second line.</p>'
    '<div class="scroll"><table><thead><tr><th scope="col">a</th>'
    '<th class="number" scope="col">b</th></tr></thead>'
    '<tbody><tr><td>x | y</td><td class="number">1.5</td></tr></tbody></table></div>'
    '<ul><li>one</li><li>two</li></ul>'
    '<p class="note"><strong>Note.</strong> Look.</p>'
    '<pre>python -m x\n\ny</pre><pre>indented</pre>'
  )


def test_html_and_links_in_markdown_stay_text():
  page = markdown.to_html(
    f'# {_EVIL}\n\n{_EVIL} `{_EVIL}` **{_EVIL}** [text](javascript:x)\n\n'
    f'| {_EVIL} |\n| --- |\n| {_EVIL} |\n\n- {_EVIL}\n\n> {_EVIL}\n\n    {_EVIL}\n',
    top_level=4,
  )
  assert '<script' not in page
  assert 'javascript' not in page
  assert page.count('&lt;script&gt;') == 9


def test_markdown_that_ends_within_code_loses_nothing():
  assert markdown.to_html('```\nx = 1\n', top_level=4) == '<pre>x = 1</pre>'
