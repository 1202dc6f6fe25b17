"""Messages of twenty newsgroups; clients have class shares of their own.

python -m tff_textpriv.tasks.newsgroups --algo=fede_vocab --data=20newsgroups
"""

import dataclasses

from tff_textpriv.datasets import embedded_labelled, labelled, newsgroups
from tff_textpriv.settings import setting
from tff_textpriv.tasks import base
from tff_textpriv.training import classification_settings, experiment, token_settings

_EMBEDDED_CLASSES = tuple(f'group_{number}' for number in range(1, 21))


@dataclasses.dataclass(frozen=True)
class NewsgroupsSettings(token_settings.TokenSettings):
  """Messages are longer than news."""

  max_words: int = setting(
    128, 'Where a text is cut off, in words or pieces of words.', low=3
  )


def load(chosen: NewsgroupsSettings, seed: int) -> labelled.LabelledData:
  """Reads the data that `--data` names."""
  if chosen.data == 'embedded':
    return embedded_labelled.topics(seed, _EMBEDDED_CLASSES, sentences=(4, 8))
  return newsgroups.load(chosen.data, seed)


TASK = experiment.Task(
  name='newsgroups',
  summary='Trains a classifier of messages by the newsgroup they were sent to.',
  kind='classification',
  settings=NewsgroupsSettings,
  load=load,
  run_settings=classification_settings.ClassificationRunSettings,
)

if __name__ == '__main__':
  base.main(TASK)
