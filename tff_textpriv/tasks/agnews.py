"""News in four classes; clients have class shares of their own.

python -m tff_textpriv.tasks.agnews --algo=fede_vocab --data=ag_news
"""

from tff_textpriv.datasets import agnews, embedded_labelled, labelled
from tff_textpriv.tasks import base
from tff_textpriv.training import classification_settings, experiment, token_settings


def load(chosen: token_settings.TokenSettings, seed: int) -> labelled.LabelledData:
  """Reads the data that `--data` names."""
  if chosen.data == 'embedded':
    return embedded_labelled.topics(seed, agnews.CLASSES, sentences=(2, 4))
  return agnews.load(chosen.data, seed)


TASK = experiment.Task(
  name='agnews',
  summary='Trains a classifier of news: world, sports, business, science.',
  kind='classification',
  settings=token_settings.TokenSettings,
  load=load,
  run_settings=classification_settings.ClassificationRunSettings,
)

if __name__ == '__main__':
  base.main(TASK)
