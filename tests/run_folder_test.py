"""The one reader of a run's folder: strict, and the same for all who read."""

import json

import pytest

from tff_textpriv import files, run_folder

_CONFIG = {'task': 'imdb', 'algo': 'rr_ldp', 'seed': 1, 'workers': ('a:1', 'b:2')}


def test_results_are_those_of_a_finished_run_with_the_same_settings(tmp_path):
  assert run_folder.finished_results(tmp_path, _CONFIG) is None
  (tmp_path / 'config.json').write_text(json.dumps(_CONFIG))
  assert run_folder.finished_results(tmp_path, _CONFIG) is None
  (tmp_path / 'results.json').write_text('{"test_auc": 0.5}')
  assert run_folder.finished_results(tmp_path, _CONFIG) == {'test_auc': 0.5}
  assert run_folder.finished_results(tmp_path, {**_CONFIG, 'seed': 2}) is None


def test_rounds_are_read_up_to_where_the_table_is_broken(tmp_path):
  (tmp_path / 'metrics.csv').write_text('round,loss,auc\n1,0.5,\n2,0.4,0.9\nx,1,1\n')
  rounds = run_folder.rounds(tmp_path)
  measured = [next(rounds), next(rounds)]
  assert measured == [{'round': 1, 'loss': 0.5}, {'round': 2, 'loss': 0.4, 'auc': 0.9}]
  assert run_folder.points(measured, 'auc') == ([2], [0.9])
  with pytest.raises(files.FileError, match='metrics.csv: not the table') as caught:
    next(rounds)
  assert caught.value.reason == "could not convert string to float: 'x'"


@pytest.mark.parametrize('name', ['config.json', 'results.json', 'metrics.csv'])
def test_no_reader_follows_a_link(tmp_path, name):
  contents = {'config.json': _CONFIG, 'results.json': {'rounds': 1}}
  for file, content in contents.items():
    (tmp_path / file).write_text(json.dumps(content))
  (tmp_path / 'metrics.csv').write_text('round\n1\n')
  read = {
    'config.json': run_folder.read_config,
    'results.json': run_folder.read_results,
    'metrics.csv': lambda folder: list(run_folder.rounds(folder)),
  }[name]
  assert read(tmp_path)
  (tmp_path / name).rename(tmp_path / 'elsewhere')
  (tmp_path / name).symlink_to(tmp_path / 'elsewhere')
  with pytest.raises(files.FileError, match=f'{name}: cannot be read .it is a link'):
    read(tmp_path)


def test_settings_without_a_task_are_no_run_s(tmp_path):
  (tmp_path / 'config.json').write_text('{"algo": "rr_ldp", "task": 3}')
  with pytest.raises(files.FileError, match="config.json: there is no 'task' in it"):
    run_folder.read_config(tmp_path)
