"""Who likes which movie; clients are users, or shards of their ratings.

python -m tff_textpriv.tasks.movielens --algo=rr_ldp --data=ml-1m --federation=users
"""

import dataclasses

from tff_textpriv.datasets import embedded_labelled, labelled, movielens
from tff_textpriv.settings import setting
from tff_textpriv.tasks import base
from tff_textpriv.training import classification_settings, experiment


@dataclasses.dataclass(frozen=True)
class MovieLensSettings(classification_settings.ClassificationSettings):
  """Ratings have users, and movies have keywords."""

  federation: str = setting(
    'shards',
    'How training examples are dealt to clients: about as many to each, at random (shards), '
    'to the users who gave the ratings (users), or with class shares of their own '
    '(dirichlet).',
    choices=('shards', 'users', 'dirichlet'),
  )
  keywords: str = setting(
    'auto',
    'The file of movie keywords; auto for the folder’s movie_keywords.tsv, if there is '
    'one, or none.',
  )
  model: str = setting(
    'network',
    'Logistic regression, a ReLU network of 100, 50 and 25 units, or the same with an '
    'LSTM of 50 units in front.',
    choices=classification_settings.MODELS,
  )


def load(chosen: MovieLensSettings, seed: int) -> labelled.LabelledData:
  """Reads the data that `--data` names."""
  if chosen.data == 'embedded':
    return embedded_labelled.ratings(seed, has_keywords=chosen.keywords != 'none')
  return movielens.load(chosen.data, chosen.keywords, seed)


TASK = experiment.Task(
  name='movielens',
  summary='Trains a classifier of movie ratings: 4 or 5 stars, or fewer.',
  kind='classification',
  settings=MovieLensSettings,
  load=load,
  run_settings=classification_settings.ClassificationRunSettings,
)

if __name__ == '__main__':
  base.main(TASK)
