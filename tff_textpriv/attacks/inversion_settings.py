"""Settings of the attacks; plain numbers, read without importing TensorFlow."""

import dataclasses

from tff_textpriv import settings as settings_lib
from tff_textpriv.settings import setting


@dataclasses.dataclass(frozen=True)
class InversionSettings(settings_lib.Settings):
  """How dummy embeddings are fitted to a gradient."""

  matching: str = setting(
    'cosine',
    'What is made small: one minus the cosine of each weight’s two gradients, which '
    'does not mind clipping, or their squared distance over the squared length (l2).',
    choices=('cosine', 'l2'),
  )
  attack_optimizer: str = setting(
    'staged',
    'What makes it small: Adam, whose step size falls to zero; L-BFGS; or first Adam '
    'and then L-BFGS three times, on distances in which ever fainter directions of the '
    'gradient count as much as strong ones (staged).',
    choices=('staged', 'adam', 'lbfgs'),
  )
  attack_steps: int = setting(200, 'Steps of each fit.', low=1)
  attack_step_size: float = setting(
    0.2, 'First step size of Adam, in standard deviations of an embedding.', above=0
  )
  attack_restarts: int = setting(
    1, 'Starts from different dummies, of which the best fit counts.', low=1
  )
  labels: str = setting(
    'inferred',
    'How the attacker knows the classes: read off the output bias’s gradient '
    '(inferred), or fitted along with the embeddings (soft).',
    choices=('inferred', 'soft'),
  )
  language_prior: float = setting(
    0.0,
    'With more than 0, tokens are then exchanged, moved and replaced one by one, as long '
    'as gradients fit better or the text is more probable after public text; this is what '
    'a natural logarithm of probability per token counts, in units of the misfit '
    '(dlg+prior).',
    low=0,
  )
  prior_moves: int = setting(500, 'Moves to try, with --language_prior.', low=1)
