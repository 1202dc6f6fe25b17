"""Reports in a real browser: nothing to complain of, and no wider than a phone."""

import html
import re
import shutil
import subprocess

import numpy as np
import pytest
from matplotlib import image

from tff_textpriv.reports import folders, page

_CHROMIUM = next(
  filter(None, map(shutil.which, ('chromium', 'chromium-browser', 'google-chrome'))),
  None,
)
pytestmark = pytest.mark.skipif(_CHROMIUM is None, reason='there is no chromium here')

# A page narrower than a window may be is shown in a frame, which has the measure taken.
_FRAME = """<!doctype html><style>body {{ margin: 0 }} iframe {{ border: 0 }}</style>
<iframe width="{width}" height="{height}" srcdoc="{content}"></iframe>
<script>
onload = () => {{
  const root = document.querySelector('iframe').contentDocument.documentElement;
  document.body.dataset.measured = `${{root.scrollWidth}} of ${{root.clientWidth}}`;
}};
</script>
"""


def _browse(tmp_path, file, *flags):
  """Opens a file; returns what the browser writes on stdout, and its console."""
  done = subprocess.run(
    [
      _CHROMIUM,
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      '--disable-quic',
      '--disable-dev-shm-usage',
      '--hide-scrollbars',
      '--enable-logging=stderr',
      '--virtual-time-budget=2000',
      f'--user-data-dir={tmp_path / "profile"}',
      *flags,
      file.as_uri(),
    ],
    capture_output=True,
    text=True,
    timeout=300,
    check=True,
  )
  return done.stdout, [line for line in done.stderr.splitlines() if 'CONSOLE' in line]


@pytest.fixture
def report(write_run, write_attack, tmp_path):
  """A report with wide tables, long names and users' text."""
  for number in range(6):
    settings = {'algo': 'dp_fed_avg', f'a_long_setting_{number}': 'x' * 40}
    write_run(
      f'a_run_with_a_rather_long_name_{number}',
      auc=0.5 + number / 20,
      epsilon=(None, 1, 4)[number % 3],
      config=settings,
      bytes_up_per_client=10**number,
      test_accuracy=0.5 + number / 20,
      test_majority_accuracy=0.6,
      test_num_examples=100,
    )
  (tmp_path / 'study.csv').touch()
  (tmp_path / 'study.md').write_text('# Study\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n')
  (tmp_path / 'study.svg').write_text(
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 300">'
    '<rect width="900" height="300" fill="teal"/></svg>'
  )
  write_attack(
    {'fed_avg': [0.5]},
    cases=[
      {
        'texts': [['w' * 200, '<script>alert(1)</script>']],
        'found': [{'attack': 'rows', 'tokens': ['w' * 200], 'recall': 0.5}],
      }
    ],
  )
  file = tmp_path / 'report.html'
  file.write_text(page.render(folders.search([tmp_path])), encoding='utf-8')
  return file


@pytest.mark.parametrize('scheme', ['light', 'dark'])
def test_the_page_is_shown_without_a_complaint(report, tmp_path, scheme):
  picture = tmp_path / f'{scheme}.png'
  flags = ['--window-size=1200,2400', f'--screenshot={picture}']
  if scheme == 'dark':
    flags.append('--blink-settings=preferredColorScheme=0')
  _, console = _browse(tmp_path, report, *flags)
  assert not console
  pixels = image.imread(picture)[:, :, :3]
  assert pixels.shape[:2] == (2400, 1200)
  assert (pixels[0, 0].mean() < 0.3) == (scheme == 'dark')
  # There is something on every tenth of the page.
  assert all(part.std() > 0.01 for part in np.array_split(pixels, 10))


def test_a_complaint_would_be_noticed(report, tmp_path):
  # The page's own policy forbids the script, and the browser says so.
  report.write_text(report.read_text().replace('</body>', '<script>1</script></body>'))
  _, console = _browse(tmp_path, report, f'--screenshot={tmp_path / "x.png"}')
  assert console


def test_a_phone_shows_the_page_without_scrolling_sideways(report, tmp_path):
  def measured(content):
    frame = tmp_path / 'frame.html'
    frame.write_text(
      _FRAME.format(width=390, height=3000, content=html.escape(content)),
      encoding='utf-8',
    )
    dom, _ = _browse(tmp_path, frame, '--dump-dom')
    return tuple(map(int, re.search(r'(\d+) of (\d+)', dom).groups()))

  opened = report.read_text(encoding='utf-8').replace('<details>', '<details open>')
  assert measured(opened) == (390, 390)
  wide = opened.replace('class="scroll"', '')
  assert measured(wide)[0] > 390


def test_the_page_can_be_printed(report, tmp_path):
  file = tmp_path / 'report.pdf'
  _, console = _browse(tmp_path, report, f'--print-to-pdf={file}')
  assert not console
  assert file.read_bytes().startswith(b'%PDF')
