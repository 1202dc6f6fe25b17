import dataclasses

import pytest

from tff_textpriv import flags, settings
from tff_textpriv.settings import setting


@dataclasses.dataclass(frozen=True)
class _Example(settings.Settings):
  rate: float = setting(0.5, 'A rate.', above=0, high=1)
  count: int | None = setting(None, 'A count.', low=1)
  names: tuple[str, ...] = setting((), 'Names.')
  kind: str = setting('a', 'A kind.', choices=('a', 'b'))
  switch: bool = setting(False, 'A switch.')


def _parse(*argv):
  groups = [flags.Group('Example', _Example)]
  return flags.make(_Example, flags.parse(argv, groups))


def test_flags_become_typed_settings_and_the_rest_keep_their_defaults():
  parsed = _parse('--rate=0.25', '--names=x, y', '--switch', '--count=1_000')
  assert parsed == _Example(rate=0.25, names=('x', 'y'), switch=True, count=1000)
  assert _parse() == _Example()
  assert _parse('--noswitch').switch is False


@pytest.mark.parametrize(
  ('argument', 'message'),
  [
    ('--rate=0', '--rate=0.0: must be a number > 0 and <= 1'),
    ('--rate=nan', '--rate=nan: must be a number > 0 and <= 1'),
    ('--rate=fast', '--rate=fast: must be a number > 0 and <= 1'),
    ('--count=0', '--count=0: must be an integer >= 1'),
    ('--count=1.5', '--count=1.5: must be an integer >= 1'),
    ('--kind=c', '--kind=c: must be one of a, b'),
  ],
)
def test_a_bad_value_is_refused_with_flag_value_and_range(argument, message):
  with pytest.raises(settings.SettingsError) as error:
    _parse(argument)
  assert str(error.value) == message


def test_an_unknown_flag_is_refused_with_the_nearest_known_one():
  with pytest.raises(flags.UsageError, match='rat.*rate'):
    _parse('--rat=1')


@pytest.mark.parametrize(
  ('wrong', 'hint'),
  [
    ('epsilon', '; did you mean epsilon_per_bit, target_epsilon or adam_epsilon_2?'),
    ('targt_epsilon', '; did you mean target_epsilon?'),
    ('nothing_like_it', ''),
  ],
)
def test_names_that_are_like_a_wrong_one_are_suggested(wrong, hint):
  known = ['target_epsilon', 'adam_epsilon_2', 'epsilon_per_bit', 'depsilon', 'rate']
  assert settings.did_you_mean(wrong, known) == hint


@pytest.mark.parametrize('dashes', ['', '--'])
def test_the_former_name_of_a_flag_leads_to_the_one_it_has_now(dashes):
  known = [f'{dashes}{name}' for name in ('dropout', 'device_failure_rate')]
  hint = settings.did_you_mean(f'{dashes}dropout_rate', known)
  assert hint == f'; it is called {dashes}device_failure_rate now'
  # Where there is no such flag, the old name is like any other wrong one.
  assert 'called' not in settings.did_you_mean(f'{dashes}dropout_rate', known[:1])


def test_a_flag_is_suggested_as_it_is_typed():
  with pytest.raises(flags.UsageError) as error:
    _parse('--nams=x')
  assert str(error.value) == (
    '--nams is not a flag of this command; did you mean --names?'
  )


def test_a_stray_argument_is_refused():
  with pytest.raises(flags.UsageError, match="'oops' is not a flag"):
    _parse('oops')


@dataclasses.dataclass(frozen=True)
class _Positional(settings.Settings):
  run: str = setting(settings.REQUIRED, 'A run.', positional=True)
  words: tuple[str, ...] = setting((), 'Words.', positional=True)
  rate: float = setting(0.5, 'A rate.')


def _parse_positional(*argv):
  groups = [flags.Group('Example', _Positional)]
  return flags.make(_Positional, flags.parse(argv, groups))


def test_arguments_without_a_name_go_to_positional_settings_in_order():
  assert _parse_positional('a,b', 'c', '--rate=1', 'd e') == _Positional(
    'a,b', ('c', 'd e'), 1.0
  )
  assert _parse_positional('--', '--rate=1') == _Positional('--rate=1')


def test_a_missing_argument_is_named_and_a_positional_one_is_no_flag():
  with pytest.raises(flags.UsageError, match='<run> is missing: A run.'):
    _parse_positional('--rate=1')
  with pytest.raises(flags.UsageError, match='run'):
    _parse_positional('--run=a')


def test_an_argument_too_many_is_refused():
  @dataclasses.dataclass(frozen=True)
  class One(settings.Settings):
    run: str = setting('runs', 'A run.', positional=True)

  assert flags.parse([], [flags.Group('One', One)]) == {}
  with pytest.raises(flags.UsageError, match="'b' is one argument too many"):
    flags.parse(['a', 'b'], [flags.Group('One', One)])


def test_usage_and_help_name_positional_arguments(capsys):
  with pytest.raises(SystemExit), pytest.MonkeyPatch.context() as patch:
    patch.setattr('sys.argv', ['tool', '--help'])
    flags.run(lambda chosen: None, _Positional, 'What it does.')
  page = capsys.readouterr().out
  assert '<run> <words...> [--flag=value ...]\n' in page
  assert '  <run>\n      A run. (must be given)\n' in page
  assert '  --rate\n' in page


def test_help_names_every_flag_with_range_and_default():
  page = flags.format_help('prog', 'What it does.', [flags.Group('G', _Example)])
  assert '--rate' in page and '(a number > 0 and <= 1; default: 0.5)' in page
  assert '--[no]switch' in page
  with pytest.raises(flags.HelpRequested):
    _parse('--rate=2', '--help')


def test_a_flagfile_gives_flags(tmp_path):
  file = tmp_path / 'some.flags'
  file.write_text('--rate=0.125\n# a comment\n--kind=b\n')
  assert _parse(f'--flagfile={file}') == _Example(rate=0.125, kind='b')


def test_errors_of_ours_become_one_sentence_and_others_keep_their_traceback(capsys):
  def refuse():
    raise settings.SettingsError('rate', 2, 'must be less')

  with pytest.raises(SystemExit) as leaving:
    flags.exit_with_sentences(refuse, lambda: '')
  assert leaving.value.code == 2
  assert capsys.readouterr().err == 'error: --rate=2: must be less\n'

  with pytest.raises(ValueError, match='invalid literal'):
    flags.exit_with_sentences(lambda: int('x'), lambda: '')


def test_a_name_without_its_underscores_leaves_no_doubt():
  known = ['dp_fed_avg', 'fed_avg', 'lg_fedavg']
  assert settings.did_you_mean('fedavg', known) == '; did you mean fed_avg?'
  assert settings.did_you_mean('DPFedAvg', known) == '; did you mean dp_fed_avg?'


def test_a_short_name_is_that_of_the_flag_that_it_means_unless_it_is_one_itself():
  assert flags.in_full('--epsilon=2', {'target_epsilon'}) == '--target_epsilon=2'
  assert flags.in_full('-epsilon', {'target_epsilon'}) == '--target_epsilon'
  for known in ({'epsilon', 'target_epsilon'}, {'clip'}):
    assert flags.in_full('--epsilon=2', known) == '--epsilon=2'
  assert flags.in_full('epsilon=2', {'target_epsilon'}) == 'epsilon=2'
