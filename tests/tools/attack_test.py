"""The scoreboard of attacks: from flags to a report, on embedded data."""

import csv
import subprocess
import sys

import pytest

from tff_textpriv.attacks import scoreboard
from tff_textpriv.reports import attacks
from tff_textpriv.settings import SettingsError
from tff_textpriv.tools import attack

_SMALL = (
  '--task=agnews',
  '--model=bilstm_tiny',
  '--max_words=12',
  '--dropout=0',
  '--vocab_size=5000',
  '--client_optimizer=sgd',
  '--client_learning_rate=0.1',
  '--private_tokens=0',
  '--sentences=6',
)


def _rows(folder):
  with open(folder / 'agnews' / 'attack.csv', newline='') as stream:
    return {
      (row['algorithm'], row['attack'], row['table'], row['sentences']): row
      for row in csv.DictReader(stream)
    }


@pytest.mark.slow
def test_the_scoreboard_tells_who_leaks_and_who_does_not(tmp_path, capsys):
  argv = [
    *_SMALL,
    '--algo=fed_avg,fede_vocab,local_only,rr_ldp,dp_fed_avg',
    '--attacks=guess,rows,span',
    '--batch_sizes=1,2',
    '--noise_multiplier=1',
    '--clip=0.1',
    '--noadaptive_updating',
    '--view=released',
    '--cases=1',
    f'--attack_dir={tmp_path}',
  ]
  assert attack.main(argv) == 0
  rows = _rows(tmp_path)
  for size in ('1', '2'):
    # All tokens but those that are not in the vocabulary.
    found = float(rows['fed_avg', 'rows', '-', size]['recall'])
    assert found >= 0.7
    # The embedding stays; the kernels above it tell those who know the vectors.
    assert ('fede_vocab', 'rows', '-', size) not in rows
    assert float(rows['fede_vocab', 'span', 'public', size]['recall']) >= found
    assert float(rows['fede_vocab', 'span', 'unrelated', size]['recall']) < 0.3
    assert float(rows['dp_fed_avg', 'rows', '-', size]['recall']) < 0.5
    assert float(rows['rr_ldp', 'rows', '-', size]['recall']) < 0.2
    # Who sends nothing can only be guessed at.
    assert [key for key in rows if key[0] == 'local_only' and key[3] == size] == [
      ('local_only', 'guess', '-', size)
    ]
  report = (tmp_path / 'agnews' / 'attack.md').read_text()
  assert '**true text**' in report
  assert 'fed_avg, rows (-)' in report
  assert (tmp_path / 'agnews' / 'attack.png').exists()
  board = attacks.read(tmp_path / 'agnews', 'agnews')
  assert board.problem == '' and len(board.rows) == len(rows)
  assert board.privacy['dp_fed_avg']['noise_multiplier'] == 1
  assert board.privacy['fed_avg'] == {}
  (case,) = board.cases
  assert {'fed_avg, rows (-)', 'local_only, guess (-)'} <= {
    found.attack for found in case.found
  }
  assert ' '.join(case.texts[0]) in report
  printed = ' '.join(capsys.readouterr().out.split())
  assert '| fed_avg | rows | - | batch | 1 | 6 |' in printed


@pytest.mark.slow
def test_gradient_inversion_has_its_row_beside_the_others(tmp_path):
  argv = [
    *_SMALL,
    '--algo=fede_vocab',
    '--attacks=dlg,decipher',
    '--sentences=1',
    '--attack_steps=2',
    '--language_prior=0.1',
    '--prior_moves=2',
    '--rounds_before=1',
    '--client_sentences=1',
    f'--attack_dir={tmp_path}',
  ]
  assert attack.main(argv) == 0
  tables = {key[1:3] for key in _rows(tmp_path)}
  assert tables >= {
    *(
      (attack, table)
      for attack in ('dlg', 'dlg+prior')
      for table in ('true', 'public', 'unrelated')
    ),
    *(('decipher', table) for table in ('-', 'public')),
    *(('decipher, given vectors', table) for table in ('-', 'public')),
  }


_BY_SPAN = (
  '--algo=fede_vocab',
  '--attacks=prior,span',
  '--sentences=4',
  '--batch_sizes=4',
)


def test_what_hides_a_text_is_said_and_what_was_found_is_over_the_prior(
  tmp_path, capsys
):
  given = [each for each in _SMALL if each != '--dropout=0']
  assert attack.main([*given, *_BY_SPAN, f'--attack_dir={tmp_path}']) == 0
  rows = _rows(tmp_path)
  prior = rows['fede_vocab', 'prior', '-', '4']
  assert float(prior['advantage']) == 0 and prior['advantage_margin'] == 'nan'
  span = rows['fede_vocab', 'span', 'public', '4']
  # Frequent words take the place of what was not found.
  assert float(span['advantage']) >= float(span['recall']) - float(prior['recall'])
  said = ' '.join(capsys.readouterr().out.split())
  # Dropout is off unless it is asked for; four texts of twelve tokens are too many.
  assert 'dropout 0,' in said and 'hides from span' not in said
  assert 'Messages of 4 may have 48 tokens' in said and 'has 32 numbers' in said


def test_dropout_that_is_asked_for_is_said_to_hide(tmp_path, capsys):
  given = [each for each in _SMALL if each != '--dropout=0']
  argv = [*given, '--dropout=0.5', '--algo=fede_vocab', '--attacks=guess']
  assert attack.main([*argv, f'--attack_dir={tmp_path}']) == 0
  assert 'Dropout of 0.5 hides from span and dlg' in capsys.readouterr().out


def test_what_was_found_so_far_is_written_now_and_then(tmp_path, monkeypatch):
  seen = []
  monkeypatch.setattr(scoreboard, '_SECONDS_BETWEEN', -1.0)
  write = scoreboard.Scoreboard.write
  monkeypatch.setattr(
    scoreboard.Scoreboard,
    'write',
    lambda board: (write(board), seen.append(len(_rows(tmp_path))))[0],
  )
  argv = [*_SMALL, '--algo=fede_vocab', '--attacks=guess', '--sentences=2']
  assert attack.main([*argv, f'--attack_dir={tmp_path}']) == 0
  assert seen == [1, 1, 1]


def test_more_sentences_than_a_batch_holds_are_needed():
  with pytest.raises(SettingsError, match='--sentences=4: must fill a batch of 8'):
    attack.main(['--sentences=4', '--batch_sizes=8'])


def test_a_model_without_an_embedding_is_refused():
  with pytest.raises(SettingsError, match='--model=logistic: has no embedding'):
    attack.main(['--algo=fed_avg', '--model=logistic'])


def test_a_batch_that_is_no_one_client_s_is_refused_after_rounds():
  with pytest.raises(SettingsError, match='--batch_sizes=.*multiple of each'):
    attack.main(['--rounds_before=1', '--client_sentences=4', '--batch_sizes=3'])


def test_a_round_of_several_steps_is_attacked_after_rounds_on_the_same_texts(tmp_path):
  argv = [
    *_SMALL,
    '--algo=fed_avg,fede_vocab',
    '--attacks=prior,rows,span',
    '--messages=batch,round',
    '--client_sentences=3',
    '--client_batch_size=2',
    '--client_epochs_per_round=2',
    '--rounds_before=2',
    f'--attack_dir={tmp_path}',
  ]
  assert attack.main(argv) == 0
  rows = _rows(tmp_path)
  kinds = {(row['message'], row['sentences'], row['messages']) for row in rows.values()}
  assert kinds == {('batch', '1', '6'), ('round', '3', '2')}
  # All words of a round stand in the rows that have moved.
  assert float(rows['fed_avg', 'rows', '-', '3']['recall']) >= 0.7
  assert float(rows['fed_avg', 'rows', '-', '3']['advantage']) > 0.1
  # Tables that have moved are no longer quite what everybody knows.
  own, public = (
    float(rows['fede_vocab', 'span', table, '1']['recall'])
    for table in ('true', 'public')
  )
  assert own >= public


def test_the_prior_names_the_most_frequent_words_of_public_text(tmp_path):
  attacks = '--attacks=guess,prior,rows,span,decipher'
  argv = [*_SMALL, '--algo=local_only', attacks, '--sentences=2']
  assert attack.main([*argv, f'--attack_dir={tmp_path}']) == 0
  rows = _rows(tmp_path)
  # Nothing is sent, and so nothing is attacked.
  assert {key[1] for key in rows} == {'guess', 'prior'}
  guess, prior = (
    float(rows['local_only', *name, '1']['recall'])
    for name in (('guess', '-'), ('prior', '-'))
  )
  assert prior > guess + 0.2


def test_users_who_draw_their_own_tables_are_read_with_these_only(tmp_path):
  known = tmp_path / 'vectors.txt'
  known.write_text('the 0.1 0.2\na 0.3 -0.1\nof 0.2 0.5\n')
  argv = [
    *_SMALL,
    '--algo=fede_vocab',
    '--different_init',
    f'--known_vectors={known}',
    '--attacks=span,decipher',
    '--sentences=2',
  ]
  assert attack.main([*argv, f'--attack_dir={tmp_path}']) == 0
  rows = _rows(tmp_path)
  own, public = (
    float(rows['fede_vocab', 'span', table, '1']['recall'])
    for table in ('true', 'public')
  )
  assert own >= 0.7 and public < 0.3
  assert ('fede_vocab', 'decipher, given vectors', 'public', '1') in rows


def test_help_and_wrong_flags_are_answered_without_tensorflow():
  script = (
    'import sys; from tff_textpriv.tools import attack; attack.help_page();'
    'sys.exit("tensorflow" in sys.modules)'
  )
  subprocess.run([sys.executable, '-c', script], check=True)


def test_real_news_are_recovered_from_fed_avg_almost_wholly(real_data, tmp_path):
  argv = [
    '--task=agnews',
    f'--data={real_data / "ag_news"}',
    '--model=bilstm_small',
    '--max_words=32',
    '--dropout=0',
    '--algo=fed_avg,fede_vocab',
    '--attacks=guess,rows,span',
    '--sentences=32',
    '--client_optimizer=sgd',
    f'--attack_dir={tmp_path}',
  ]
  assert attack.main(argv) == 0
  rows = _rows(tmp_path)
  assert float(rows['fed_avg', 'rows', '-', '1']['recall']) >= 0.8
  assert float(rows['fed_avg', 'span', 'public', '1']['recall']) >= 0.8
  guessed = float(rows['fede_vocab', 'guess', '-', '1']['recall'])
  unrelated = float(rows['fede_vocab', 'span', 'unrelated', '1']['recall'])
  # 32 texts of at most 32 tokens: a few hits more or less are chance.
  assert abs(unrelated - guessed) < 0.02
