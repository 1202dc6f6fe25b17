"""LG-FedAvg: representations stay on the device, the layers above are averaged."""

import dataclasses

from tff_textpriv.iterative_processes import algorithm, common_settings
from tff_textpriv.privacy.mechanism import Mechanism
from tff_textpriv.settings import setting


@dataclasses.dataclass(frozen=True)
class LgFedAvgSettings(common_settings.PersonalSettings):
  """Local representations under a global model."""

  local_layers: str = setting(
    'representation',
    'What stays on the device: everything but the output layer (representation), or '
    'the embedding only.',
    choices=('representation', 'embedding'),
  )
  interpolation: float = setting(
    0.0,
    'How much of the shared layers a user takes from its own last training, rather '
    'than from the server.',
    low=0,
    below=1,
  )


def build_lg_fedavg(
  model: algorithm.Model, settings: LgFedAvgSettings, mechanism: Mechanism
) -> algorithm.Process:
  """Builds LG-FedAvg.

  The model's first weights are a user's own; the others, w, are averaged. A user may take
  a share of w from its own last training, `--interpolation`, and the rest from the server.
  With the embedding as the only local layer and without interpolation it is
  `build_fede_vocab` without adaptive updating.

  Args:
    model: What is trained; carries the initial weights.
    settings: Both optimizers, the schedule, and what users keep.
    mechanism: What makes the mean; `NoMechanism` for none.

  Returns:
    A learning process whose model weights are the shared part. Clients read batches for
    `adaptation`, `batches`, and the names of the files of their `state`.

  Example:
    >>> build_lg_fedavg(model, LgFedAvgSettings(interpolation=0.3), NoMechanism('none'))

  Reference: Liang et al., Think Locally, Act Globally (2020).
  """
  # Only now is TFF needed: flags are read before.
  from tff_textpriv.iterative_processes import partially_local

  return partially_local.build(model, client(model, settings), settings, mechanism)


def client(model: algorithm.Model, settings: LgFedAvgSettings) -> algorithm.Client:
  """Describes a client: the table and perhaps the layers above it are its own."""
  from tff_textpriv.iterative_processes import clients

  num_local = 1
  if settings.local_layers == 'representation':
    num_local = len(model.initial_weights[0]) - clients.NUM_OUTPUT_WEIGHTS
  return clients.personal(model, settings, num_local, own_share=settings.interpolation)


ALGORITHM = algorithm.Algorithm(
  'lg_fedavg',
  'representations stay on the device, the layers above are averaged',
  LgFedAvgSettings,
  build_lg_fedavg,
  client,
  kinds=algorithm.KINDS,
  keeps=algorithm.Keeps.MODEL_PART,
)
