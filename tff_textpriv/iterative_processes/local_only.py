"""Every user for itself: the whole model stays on the device, and nothing is sent."""

import dataclasses

from tff_textpriv.iterative_processes import algorithm, common_settings
from tff_textpriv.privacy.mechanism import Mechanism
from tff_textpriv.privacy.no_mechanism import NoPrivacySettings


@dataclasses.dataclass(frozen=True)
class LocalOnlySettings(common_settings.PersonalSettings):
  """Every user for itself."""


@dataclasses.dataclass(frozen=True)
class NothingIsSent(NoPrivacySettings):
  """No flags: there is no update to protect, and metrics are sent as they are."""

  reason = 'no update is sent, and training metrics are sent as they are'


def build_local_only(
  model: algorithm.Model, settings: LocalOnlySettings, mechanism: Mechanism
) -> algorithm.Process:
  """Builds training without a federation: what says what a federation is worth.

  Each user k minimizes its own loss f_k(w_k) round after round; the process has no shared
  weights, and only training metrics leave the device.

  Args:
    model: What is trained; carries the initial weights.
    settings: Both optimizers, the schedule, and what users keep.
    mechanism: What makes the mean; `NoMechanism` for none.

  Returns:
    A learning process whose model weights are the shared part. Clients read batches for
    `adaptation`, `batches`, and the names of the files of their `state`.

  Example:
    >>> build_local_only(model, LocalOnlySettings(), NoMechanism('none'))

  Reference: none; it is the baseline of every paper on personalisation.
  """
  # Only now is TFF needed: flags are read before.
  from tff_textpriv.iterative_processes import partially_local

  return partially_local.build(model, client(model, settings), settings, mechanism)


def client(model: algorithm.Model, settings: LocalOnlySettings) -> algorithm.Client:
  """Describes a client: all weights are its own."""
  from tff_textpriv.iterative_processes import clients

  return clients.personal(model, settings, len(model.initial_weights[0]))


ALGORITHM = algorithm.Algorithm(
  'local_only',
  'every user trains for itself',
  LocalOnlySettings,
  build_local_only,
  client,
  privacy=NothingIsSent,
  kinds=algorithm.KINDS,
  keeps=algorithm.Keeps.MODEL_PART,
)
