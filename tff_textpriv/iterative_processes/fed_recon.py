"""FedRecon: the embeddings of private tokens are reconstructed on the device."""

import dataclasses

from tff_textpriv.iterative_processes import algorithm, common_settings
from tff_textpriv.privacy.mechanism import Mechanism
from tff_textpriv.settings import setting


@dataclasses.dataclass(frozen=True)
class FedReconSettings(
  common_settings.FullStepSettings, common_settings.LocalTrainingSettings
):
  """Federated reconstruction of the embeddings of private tokens."""

  client_optimizer: str = setting(
    'adam',
    'Optimizer of local training, and of reconstruction.',
    choices=common_settings.CLIENT_OPTIMIZERS,
  )
  client_learning_rate: float = setting(0.005, 'Step size of the client.', above=0)
  reconstruction_data: str = setting(
    'all',
    'What the embeddings of private tokens are made of: all batches of a user, which train '
    'the rest too (all); or every other batch, and only those between train the rest, as in '
    'the paper (half). Of one batch alone nothing is left to train then.',
    choices=('all', 'half'),
  )

  @property
  def local_epochs(self) -> int:
    """One: what trains is passed over again in the round, what reconstructs is not."""
    return 1

  @property
  def splits_data(self) -> bool:
    """Whether what reconstructs does not train."""
    return self.reconstruction_data == 'half'


def build_fed_recon(
  model: algorithm.Model, settings: FedReconSettings, mechanism: Mechanism
) -> algorithm.Process:
  """Builds federated reconstruction, by TFF's own builder.

  In each round a user makes the embeddings of private tokens, the model's first weight, of
  all its data, or of a half of them, by an epoch with all else frozen; then it trains all
  else, of all its data or of the other half, which is averaged. Nothing is kept between
  rounds.

  Args:
    model: What is trained; carries the initial weights.
    settings: Both optimizers; the client’s also reconstructs.
    mechanism: What makes the mean; `NoMechanism` for none.

  Returns:
    A learning process: `initialize`, `next` and `get_model_weights`.

  Example:
    >>> build_fed_recon(model, FedReconSettings(), NoMechanism('none'))

  Reference: Singhal et al., Federated Reconstruction: Partially Local Federated Learning
  (2021).
  """
  # Only now is TFF needed: flags are read before.
  import tensorflow_federated as tff

  from tff_textpriv.aggregators import of_mechanism
  from tff_textpriv.iterative_processes import optimizers, reconstruction

  optimizer = optimizers.client_optimizer(settings)
  return tff.learning.algorithms.build_fed_recon(
    lambda: reconstruction.Reconstruction(model),
    loss_fn=reconstruction.Loss,
    metrics_fn=lambda: [
      reconstruction.Accuracy('accuracy'),
      reconstruction.NumExamples('num_examples'),
    ],
    server_optimizer_fn=optimizers.server_optimizer(settings),
    client_optimizer_fn=optimizer,
    reconstruction_optimizer_fn=optimizer,
    model_aggregator_factory=of_mechanism.mean(mechanism, by_examples=True),
    dataset_split_fn=tff.learning.models.ReconstructionModel.build_dataset_split_fn(
      post_recon_epochs=settings.client_epochs_per_round,
      split_dataset=settings.splits_data,
    ),
  )


def client(model: algorithm.Model, settings: FedReconSettings) -> algorithm.Client:
  """Describes what a user does in a round."""
  from tff_textpriv.iterative_processes import clients, local_training, optimizers

  return clients.ReconstructingClient(
    local_training.LocalTrainer(
      model, optimizers.client_optimizer(settings), num_local=1, trains_local=False
    ),
    splits_data=settings.splits_data,
    num_epochs=settings.client_epochs_per_round,
  )


ALGORITHM = algorithm.Algorithm(
  'fed_recon',
  'the embeddings of tokens with digits are reconstructed on the device',
  FedReconSettings,
  build_fed_recon,
  client,
  kinds=(algorithm.CLASSIFICATION,),
  keeps=algorithm.Keeps.PRIVATE_ROWS,
)
