"""Next-word prediction on StackOverflow posts; the client is the poster.

python -m tff_textpriv.tasks.stackoverflow --algo=dp_fed_avg --target_epsilon=2
"""

from tff_textpriv.datasets import clients, stackoverflow
from tff_textpriv.tasks import base, language_data
from tff_textpriv.training import experiment, language_settings


def load(
  chosen: language_settings.LanguageModelSettings, seed: int
) -> clients.FederatedText:
  """Reads the data that `--data` names."""
  return language_data.load(
    chosen,
    embedded_seed=seed,
    read=stackoverflow.load,
    download=stackoverflow.download,
  )


TASK = experiment.Task(
  name='stackoverflow',
  summary='Trains a language model on StackOverflow posts that stay with their users.',
  kind='language_model',
  settings=language_settings.LanguageModelSettings,
  load=load,
)

if __name__ == '__main__':
  base.main(TASK)
