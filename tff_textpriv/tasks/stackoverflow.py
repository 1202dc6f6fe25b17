"""Next-word prediction on StackOverflow posts; the client is the poster.

python -m tff_textpriv.tasks.stackoverflow --algo=dp_fed_avg --target_epsilon=2
"""

import dataclasses

from tff_textpriv.datasets import clients, embedded, plain_text, stackoverflow
from tff_textpriv.tasks import base
from tff_textpriv.training import experiment, settings


def load(chosen: settings.LanguageModelSettings, seed: int) -> clients.FederatedText:
  """Reads the data that `--data` names."""
  if chosen.data == 'embedded':
    data = embedded.build(seed, num_train_users=chosen.num_users)
  elif chosen.data == 'download':
    data = stackoverflow.load(stackoverflow.download(chosen.data_dir))
  else:
    data = stackoverflow.load(chosen.data)
  if chosen.public_data is not None:
    public_text = list(plain_text.read_lines(chosen.public_data))
    data = dataclasses.replace(data, public_text=public_text)
  return data


TASK = experiment.Task(
  name='stackoverflow',
  summary='Trains a language model on StackOverflow posts that stay with their users.',
  kind='language_model',
  settings=settings.LanguageModelSettings,
  load=load,
)

if __name__ == '__main__':
  base.main(TASK)
