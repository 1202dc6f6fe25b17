"""Runs on text with marked words, users and labels: a process of its own.

python tests/side_doors/marked_runs.py FOLDER NAME...

The text of each run, its caches and its temporary files are in the folder, too.
"""

import csv
import itertools
import pathlib
import sys

# Unlike any word, and long enough not to occur in binary files by chance.
USER, WORD, LABEL = 'zqxvusr', 'zqxvwrd', 'zqxvlbl'
MARKERS = (USER, WORD, LABEL)

_NUM_USERS = 12
_TEXT = ('--user_column=author', '--text_column=body')
_PUBLIC = ('--public_data={folder}/public.txt', '--vocab_size=400', '--model=lstm_tiny')
_SHORT = ('--total_rounds=2', '--rounds_per_eval=2', '--clients_per_round=4')
_CLASSES = ('--label_column=topic', *_SHORT)

# The flags of each run, and the formats in which it is exported.
RUNS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
  'subword_resample': (
    ('--algo=subword_resample', *_PUBLIC, *_SHORT, '--sample_tokens=2000',
     # With the noise of ten users it would write nothing but noise.
     '--accounted_population=10000000', '--accounted_cohort=20000',
     '--resample_rounds=1', '--target_epsilon=20'),
    ('keras', 'saved_model', 'tflite'),
  ),
  'rr_ldp': (('--algo=rr_ldp', *_PUBLIC, *_SHORT), ('keras',)),
  'fed_att': (('--algo=fed_att', *_PUBLIC, *_SHORT), ()),
  'oracle': (
    ('--algo=fed_avg', *_PUBLIC[1:], *_SHORT, '--tokenizer_source=oracle',
     '--tokenizer=word', '--vocab_size=20'),
    ('keras',),
  ),
  'rr_ldp classes': (('--algo=rr_ldp', *_CLASSES), ('keras', 'saved_model')),
  'fede_vocab': (('--algo=fede_vocab', *_CLASSES), ('keras',)),
  'fed_avg words': (
    ('--algo=fed_avg', '--model=bilstm_tiny', *_CLASSES),
    ('keras', 'saved_model', 'tflite'),
  ),
}  # fmt: skip


def write_data(folder: pathlib.Path) -> None:
  """Writes posts in which markers are everywhere, and public text without any."""
  with open(folder / 'posts.csv', 'w', newline='') as file:
    writer = csv.writer(file)
    writer.writerow(['author', 'body', 'topic'])
    for number in range(20 * _NUM_USERS):
      user = number % _NUM_USERS
      label = f'{LABEL}{number // _NUM_USERS % 2}'
      body = f'my {WORD} has {WORD}{user} and tail number {number % 5} of {label}'
      writer.writerow([f'{USER}{user}', body, label])
  words = [
    ''.join(letters) for letters in itertools.product('bcdfghkl', 'aeiou', 'klmnprst')
  ]
  (folder / 'public.txt').write_text('\n'.join([' '.join(words)] * 20))


def main(folder: pathlib.Path, names: list[str]) -> None:
  """Makes the runs, their exports and a report on all."""
  from tff_textpriv import flags

  flags.silence_tensorflow()
  from tff_textpriv.tasks import base, custom
  from tff_textpriv.tools import export, report

  write_data(folder)
  for name in names:
    given, formats = RUNS[name]
    print(f'--- {name}')
    code = base.run(
      base.parse(
        custom.TASK,
        [
          f'--data={folder}/posts.csv',
          *_TEXT,
          *(flag.format(folder=folder) for flag in given),
          f'--root_output_dir={folder}/runs',
          f'--experiment_name={name.replace(" ", "_")}',
          f'--data_dir={folder}/cache',
        ],
      )
    )
    assert code == 0, name
    for format_name in formats:
      run = f'{folder}/runs/{name.replace(" ", "_")}'
      export.main(export.ExportSettings(run=run, format=format_name))
  report.main(
    report.ReportSettings(
      folders=(f'{folder}/runs',), output=f'{folder}/runs/report.html'
    )
  )


if __name__ == '__main__':
  main(pathlib.Path(sys.argv[1]), sys.argv[2:])
