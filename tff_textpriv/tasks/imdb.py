"""Sentiment of movie reviews; clients are shards of the training reviews.

python -m tff_textpriv.tasks.imdb --algo=rr_ldp --data=aclImdb
"""

from tff_textpriv.datasets import embedded_labelled, imdb, labelled
from tff_textpriv.tasks import base
from tff_textpriv.training import classification_settings, experiment


def load(
  chosen: classification_settings.ClassificationSettings, seed: int
) -> labelled.LabelledData:
  """Reads the data that `--data` names."""
  if chosen.data == 'embedded':
    return embedded_labelled.reviews(seed)
  return imdb.load(chosen.data, seed)


TASK = experiment.Task(
  name='imdb',
  summary='Trains a classifier of movie reviews by sentiment.',
  kind='classification',
  settings=classification_settings.ClassificationSettings,
  load=load,
  run_settings=classification_settings.ClassificationRunSettings,
)

if __name__ == '__main__':
  base.main(TASK)
