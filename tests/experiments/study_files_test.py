"""Study files: what they may say, and how a mistake in one is named."""

import pytest

from tff_textpriv import flags
from tff_textpriv.experiments import study, study_files, study_plan, templates
from tff_textpriv.tasks import base, command_flags
from tff_textpriv.tools import study as command

_GOOD = """
title = 'Two step sizes'
question = 'Which one?'
tasks = ['imdb', 'sst2']
rows = 'step'
columns = ['test_auc', 'validation_auc@5']
reference = 'step 0.5'

[plot]
metric = 'auc'
kind = 'lines'
x_label = 'step size'

[flags]
total_rounds = 20
rounds_per_eval = '{total_rounds}'

[task_flags.sst2]
seed = 5

[parts.plain]
algo = 'fed_avg'
client_learning_rate = 0.1

[[arms]]
label = 'step {step:g}'
use = ['plain']
flags.client_learning_rate = '{step}'
x = '{step}'
grid.step = [0.5, 0.25]
paper.imdb.test_auc = [0.9, nan]

[[arms]]
label = 'few'
tasks = ['imdb']
use = ['plain']
flags.client_epochs_per_round = '{total_rounds * 0.1}'
"""


@pytest.fixture
def write(tmp_path):
  """Returns what writes a study file in which texts were replaced, as (old, new)."""

  def write_file(*changes):
    text = _GOOD
    for old, new in changes:
      assert old in text
      text = text.replace(old, new)
    file = tmp_path / 'steps.toml'
    file.write_text(text)
    return str(file)

  return write_file


def _plan(file, task, folder, *given):
  found = base.find(task)
  return study_plan.make_plan(
    study_files.load(file),
    found,
    flags.parse(given, command_flags.groups(found)),
    (),
    folder,
  )


def test_a_file_of_one_s_own_becomes_runs(write, tmp_path):
  plan = _plan(write(), 'imdb', tmp_path, '--total_rounds=30')
  assert plan.reference == 'step 0.5'
  first, second, few = plan.runs
  assert first.arm.paper == {'test_auc': 0.9} and second.arm.paper == {}
  assert (first.arm.x, few.arm.x) == (0.5, None)
  rates = [run.experiment.algorithm_settings.client_learning_rate for run in plan.runs]
  assert rates == [0.5, 0.25, 0.1]
  epochs = [
    run.experiment.algorithm_settings.client_epochs_per_round for run in plan.runs
  ]
  assert epochs == [1, 1, 3]
  assert {run.experiment.run.rounds_per_eval for run in plan.runs} == {30}
  assert len(_plan(write(), 'sst2', tmp_path).runs) == 2
  assert _plan(write(), 'sst2', tmp_path).runs[0].seed == 5


def test_a_file_of_one_s_own_is_run_by_the_command(runs, write, tmp_path, capsys):
  given = [f'--study={write()}', f'--study_dir={tmp_path}']
  assert command.main(given) == 0
  assert (tmp_path / 'steps_imdb' / 'steps.png').exists()
  assert '| step 0.5  | 0.8765 (0.9000) | 0.750 |' in capsys.readouterr().out


def test_validation_without_a_round_is_that_of_the_model_that_is_tested(
  runs, write, tmp_path, capsys
):
  file = write(("['test_auc',", "['test_auc', 'validation_token_perplexity',"))
  assert command.main([f'--study={file}', f'--study_dir={tmp_path}']) == 0
  # Of round 2, the selected one; that of round 4 is 95.25.
  printed = capsys.readouterr().out
  assert '| validation perplexity |' in printed
  assert '| 190.5 ' in printed and '95.2' not in printed


def test_what_no_run_has_is_neither_a_column_nor_drawn(runs, write, tmp_path, capsys):
  file = write(
    ("metric = 'auc'", "metric = ['tokens_per_word_median_user', 'auc']"),
    (
      "['test_auc',",
      "['test_tokens_per_word_median_user', 'test_auc', 'validation_word_accuracy@5',",
    ),
  )
  assert command.main([f'--study={file}', f'--study_dir={tmp_path}']) == 0
  assert '| step      | AUC             | R=5   |' in capsys.readouterr().out
  assert '>test AUC</text>' in (tmp_path / 'steps_imdb' / 'steps.svg').read_text()


def test_rounds_of_several_figures_are_told_apart(runs, write, tmp_path, capsys):
  file = write(
    ("'validation_auc@5'", "'validation_auc@5', 'validation_word_perplexity@2'")
  )
  assert command.main([f'--study={file}', f'--study_dir={tmp_path}']) == 0
  heading = capsys.readouterr().out.split('| step ')[1].splitlines()[0]
  assert 'AUC, R=5' in heading and 'perplexity, R=2' in heading


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    (("title = 'Two step sizes'", ''), 'steps.toml: title: must be there and be str'),
    (("rows = 'step'", 'rows = 3'), 'steps.toml: rows: must be'),
    (("rows = 'step'", "row = 'step'"), 'rows: must be there'),
    (("reference = 'step 0.5'", "refrence = 'x'"), 'refrence: .* did you mean reference'),
    (("reference = 'step 0.5'", "reference = 'x'"), "reference: there is no arm 'x'"),
    (("'imdb', 'sst2'", "'imbd'"), 'tasks: .*did you mean imdb'),
    (("['test_auc',", "['test_acu',"), "columns: 'test_acu' is not a figure"),
    (('auc@5', 'auc@x'), 'columns: .*auc@x.* is not a figure'),
    (("metric = 'auc'", "metric = 'uac'"), 'plot.metric: '),
    (("metric = 'auc'", "metric = ['auc', 'uac']"), "plot.metric: 'uac' is not a figure"),
    (("metric = 'auc'", 'metric = []'), 'plot.metric: must be a figure, or a list of'),
    (("'lines'", "'dots'"), "plot.kind: 'dots' is not one of bars, lines, rounds"),
    (('x_label', 'label_x'), 'plot.label_x: is not a key'),
    (('[flags]', '[flags]\ntotal_round = 3'), 'flags.total_round: .*mean total_rounds'),
    (('total_rounds = 20', 'total_rounds = {}'), 'flags.total_rounds: is not the value'),
    (('[task_flags.sst2]', '[task_flags.agnews]'), "task_flags: 'agnews' is not one of"),
    (("algo = 'fed_avg'", "algo = 'fed_avgs'"), "there is no algo 'fed_avgs'; did you mean"),
    (("algo = 'fed_avg'", ''), "the arm 'step 0.5': there is no algo"),
    (("use = ['plain']", "use = ['plane']"), "there is no part 'plane'"),
    (("label = 'few'", "label = 'few'\ncolour = 1"), r'arms\[1\].colour: is not a key'),
    (('[0.5, 0.25]', '[]'), r'arms\[0\].grid.step: must be a list of values'),
    (('[0.9, nan]', '[0.9]'), 'paper.imdb.test_auc: must be numbers in the shape'),
    (('imdb.test_auc', 'imdb.test_loss'), "'test_loss' is not one of test_auc"),
    (('paper.imdb', 'paper.agnews'), "paper: 'agnews' is not one of imdb"),
    (('{total_rounds * 0.1}', '{total_round}'), r'arms\[1\]: {total_round}: .*mean total'),
    (("x = '{step}'", "x = 'here'"), "x is no number but 'here'"),
    (("label = 'few'", "label = 'Step_0.5'"), 'would have the same folder'),
    (("label = 'few'", "label = '..'"), "'..' cannot be an arm’s label"),
    (("label = 'few'", "label = 'few'\nbranch_from = 'x'"), 'branch_from is .x., which'),
    (("label = 'few'", "label = 'few'\nneeds_flag = 'x'"), "needs_flag: 'x' is not a fl"),
    (("title =", "based_on = 'nothing'\ntitle ="), 'based_on: must be one of attention'),
    (("title =", 'title'), 'steps.toml: cannot be read'),
  ],
)  # fmt: skip
def test_a_mistake_is_named_with_file_and_key(write, tmp_path, change, message):
  file = write(change)
  with pytest.raises(study.StudyError, match=message):
    _plan(file, 'imdb', tmp_path)


def test_a_file_that_is_not_there_is_named(tmp_path):
  with pytest.raises(study.StudyError, match='none.toml: cannot be read'):
    study_files.load(str(tmp_path / 'none.toml'))


def test_placeholders_are_values_products_and_parts_of_texts():
  names = {'a': 10, 'b': 0.25, 'c': 'x', 'd': True, 'big': 5000}
  assert templates.expand('{a}', names) == 10
  assert templates.expand(['{a * b}', 3, 'n'], names) == [2, 3, 'n']
  assert templates.expand('{a * 0.2 - 1}', names) == 1
  assert templates.expand('{a * 0.01}', names) == 1  # At least one.
  assert templates.expand('{c}={b:g} of {big:,}, {d}', names) == 'x=0.25 of 5,000, true'
  assert templates.names_in(['{a * 0.5}', '{c} {d}', 7]) == {'a', 'c', 'd'}


@pytest.mark.parametrize(
  'text', ['{nothing}', '{c * 2}', '{a:>99999}', '{c:g}', '{a - b}', '{}', '{a * }']
)
def test_placeholders_that_say_nothing_are_refused(text):
  with pytest.raises(templates.TemplateError, match='{'):
    templates.expand(text, {'a': 10, 'b': 2, 'c': 'x'})
