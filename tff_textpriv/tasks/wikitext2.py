"""Next-word prediction on WikiText-2, shuffled and dealt to clients.

python -m tff_textpriv.tasks.wikitext2 --algo=fed_att --data=FOLDER
"""

from tff_textpriv.datasets import clients, lm_text
from tff_textpriv.tasks import base, shuffled_text
from tff_textpriv.training import experiment


def load(
  chosen: shuffled_text.ShuffledTextSettings, seed: int
) -> clients.FederatedText:
  """Reads the data that `--data` names."""
  return shuffled_text.load(chosen, seed, lm_text.WIKITEXT_2)


TASK = experiment.Task(
  name='wikitext2',
  summary='Trains a language model on WikiText-2, shuffled and dealt to clients.',
  kind='language_model',
  settings=shuffled_text.ShuffledTextSettings,
  load=load,
  run_settings=shuffled_text.ShuffledRunSettings,
)

if __name__ == '__main__':
  base.main(TASK)
