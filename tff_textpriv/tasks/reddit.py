"""Next-word prediction on Reddit comments; the client is the author.

python -m tff_textpriv.tasks.reddit --algo=dp_fed_avg --target_epsilon=2
"""

import functools

from tff_textpriv import randomness
from tff_textpriv.datasets import clients, reddit
from tff_textpriv.tasks import base, language_data
from tff_textpriv.training import experiment, language_settings


def load(
  chosen: language_settings.LanguageModelSettings, seed: int
) -> clients.FederatedText:
  """Reads the data that `--data` names; the embedded ones are in a language apart."""
  rng = randomness.generator(seed, 'embedded reddit')
  return language_data.load(
    chosen,
    embedded_seed=int(rng.integers(2**31)),
    read=functools.partial(reddit.load, seed=seed),
    download=(
      "there is no public loader for Reddit; fetch LEAF's Reddit yourself and give the "
      'path of its JSON, or of a file with author, tab and comment in each line'
    ),
  )


TASK = experiment.Task(
  name='reddit',
  summary='Trains a language model on Reddit comments that stay with their authors.',
  kind='language_model',
  settings=language_settings.LanguageModelSettings,
  load=load,
)

if __name__ == '__main__':
  base.main(TASK)
