"""What a classifier reads: the representation that the settings name, or a refusal."""

import pytest

from tff_textpriv.settings import SettingsError
from tff_textpriv.tasks import base, imdb
from tff_textpriv.training import classifier_workbench


@pytest.mark.parametrize(
  ('flags', 'problem'),
  [
    (['--whitening_text=news.txt'], '--whitening_text=news.txt: needs'),
    (['--representation=weighed_vectors'], '--vectors_file.*is needed with'),
  ],
)
def test_files_that_are_missing_or_would_not_be_read_are_refused(flags, problem):
  task = imdb.TASK
  chosen = base.parse(task, ['--algo=central', *flags])
  train = task.load(chosen.task_settings, 0).train
  with pytest.raises(SettingsError, match=problem):
    classifier_workbench.make_representation(chosen.task_settings, train, 0)
