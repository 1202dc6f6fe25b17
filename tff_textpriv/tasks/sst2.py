"""Sentiment of sentences from reviews; clients have class shares of their own.

python -m tff_textpriv.tasks.sst2 --algo=fede_vocab --data=SST-2
"""

from tff_textpriv.datasets import embedded_labelled, labelled, sst2
from tff_textpriv.tasks import base
from tff_textpriv.training import classification_settings, experiment, token_settings


def load(chosen: token_settings.TokenSettings, seed: int) -> labelled.LabelledData:
  """Reads the data that `--data` names."""
  if chosen.data == 'embedded':
    return embedded_labelled.topics(seed, sst2.CLASSES, sentences=(1, 2))
  return sst2.load(chosen.data, seed)


TASK = experiment.Task(
  name='sst2',
  summary='Trains a classifier of sentences by sentiment.',
  kind='classification',
  settings=token_settings.TokenSettings,
  load=load,
  run_settings=classification_settings.ClassificationRunSettings,
)

if __name__ == '__main__':
  base.main(TASK)
