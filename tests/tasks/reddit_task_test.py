import pytest

from tff_textpriv import flags
from tff_textpriv.datasets.clients import DataError
from tff_textpriv.settings import SettingsError
from tff_textpriv.tasks import base, help_pages, reddit, stackoverflow
from tff_textpriv.training.language_settings import LanguageModelSettings


def test_a_command_line_becomes_an_experiment_on_reddit():
  experiment = base.parse(
    reddit.TASK, ['--algo=dp_fed_avg', '--target_epsilon=2', '--num_users=40']
  )
  assert experiment.task.name == 'reddit'
  assert experiment.task_settings.num_users == 40
  assert experiment.folder.name == 'reddit_dp_fed_avg'
  assert 'python -m tff_textpriv.tasks.reddit' in help_pages.page(reddit.TASK)


def test_a_flag_that_is_not_the_task_s_is_refused():
  with pytest.raises(flags.UsageError, match='subreddit'):
    base.parse(reddit.TASK, ['--algo=fed_avg', '--subreddit=python'])


def test_the_embedded_data_are_in_a_language_of_their_own():
  chosen = LanguageModelSettings(num_users=12)
  data, again, other = (
    task.load(chosen, 0) for task in (reddit, reddit, stackoverflow)
  )
  data.check_disjoint()
  assert len(data.train.client_ids) == 12
  user = data.train.client_ids[0]
  assert data.train.read(user) == again.train.read(user)
  assert data.train.read(user) != other.train.read(user)
  assert data.train.fingerprint != other.train.fingerprint
  vocabularies = [
    {word for line in task.public_text[:500] for word in line.split() if len(word) > 6}
    for task in (data, other)
  ]
  shared = len(vocabularies[0] & vocabularies[1])
  assert shared < 0.2 * min(map(len, vocabularies))
  assert reddit.load(chosen, 1).train.read(user) != data.train.read(user)


def test_a_path_is_read_by_the_seed_with_public_text_beside_it(tmp_path):
  comments = tmp_path / 'comments.tsv'
  comments.write_text(''.join(f'user{n}\thello from {n}\n' for n in range(30)))
  public = tmp_path / 'public.txt'
  public.write_text('first line\n\nsecond line\n')
  chosen = LanguageModelSettings(data=str(comments), public_data=str(public))
  data = reddit.load(chosen, 3)
  assert data.public_text == ['first line', 'second line']
  assert data.train.client_ids == reddit.load(chosen, 3).train.client_ids
  assert set(data.train.client_ids) != set(reddit.load(chosen, 4).train.client_ids)


def test_a_path_that_does_not_exist_is_named():
  with pytest.raises(DataError, match='nowhere: there is no such file or folder'):
    reddit.load(LanguageModelSettings(data='nowhere'), 0)


def test_a_download_is_refused_with_what_to_do_instead():
  with pytest.raises(SettingsError, match='--data=download: there is no public loader'):
    reddit.load(LanguageModelSettings(data='download'), 0)
