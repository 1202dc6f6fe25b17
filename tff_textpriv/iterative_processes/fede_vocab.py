"""Private vocabularies: each user's vocabulary and embedding table stay on the device."""

import dataclasses

from tff_textpriv.iterative_processes import algorithm, common_settings
from tff_textpriv.privacy.mechanism import Mechanism
from tff_textpriv.settings import setting


@dataclasses.dataclass(frozen=True)
class FedeVocabSettings(common_settings.PersonalSettings):
  """Private vocabularies: the embedding stays on the device."""

  adaptive_updating: bool = setting(
    True,
    'Let users adapt their embedding to the received model, for one epoch, before both '
    'are trained.',
  )
  table_learning_rate: float | None = setting(
    None,
    'Step size of a user’s own table; by default --client_learning_rate. With smaller '
    'steps than the rest’s the table learns less of a few texts by heart.',
    above=0,
  )
  anchor_strength: float = setting(
    0.0,
    'Pull of a user’s own table towards where it started, the public vectors if there are '
    'any: in each step, it goes back this share of the way, times the step size.',
    low=0,
  )
  local_layers: str = setting(
    'embedding',
    'What stays on the device: the embedding only; or, of an encoder, its positions and '
    'the normalisation above both too, as in the paper’s code (embedding_block).',
    choices=('embedding', 'embedding_block'),
  )


def build_fede_vocab(
  model: algorithm.Model, settings: FedeVocabSettings, mechanism: Mechanism
) -> algorithm.Process:
  """Builds training with private vocabularies.

  A user k assembles its own table E_k and the received model w; adapts the table for one
  epoch with w frozen; trains both; and sends w - w_k, which is averaged by examples. The
  type of the process shows that the server never holds a table.

  Args:
    model: What is trained; carries the initial weights.
    settings: Both optimizers, the schedule, and what users keep.
    mechanism: What makes the mean; `NoMechanism` for none.

  Returns:
    A learning process whose model weights are the shared part. Clients read batches for
    `adaptation`, `batches`, and the names of the files of their `state`.

  Example:
    >>> build_fede_vocab(model, FedeVocabSettings(), NoMechanism('none'))

  Reference: Zhang et al., Federated Model Decomposition with Private Vocabulary for Text
  Classification (2022), Algorithm 1.
  """
  # Only now is TFF needed: flags are read before.
  from tff_textpriv.iterative_processes import partially_local

  return partially_local.build(model, client(model, settings), settings, mechanism)


def client(model: algorithm.Model, settings: FedeVocabSettings) -> algorithm.Client:
  """Describes a client: the table is its own, and perhaps what is added to it."""
  from tff_textpriv.iterative_processes import clients

  num_local = 1
  if settings.local_layers == 'embedding_block':
    # A functional model of the caller's own does not say: it has a table only.
    num_local = getattr(model, 'num_embedding_weights', 1)
  step = settings.client_learning_rate
  return clients.personal(
    model,
    settings,
    num_local,
    local_step=(settings.table_learning_rate or step) / step,
    anchor_strength=settings.anchor_strength,
    adapts=settings.adaptive_updating,
  )


ALGORITHM = algorithm.Algorithm(
  'fede_vocab',
  'vocabulary and embedding stay on the device, the rest is averaged',
  FedeVocabSettings,
  build_fede_vocab,
  client,
  keeps=algorithm.Keeps.MODEL_PART,
)
