"""What an algorithm is: its flags, its mechanism, its client and its process.

Nothing here imports TFF: builders do, when they are called, so that `--help` and a
mistyped flag are answered at once.
"""

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tff_textpriv.privacy.mechanism import MechanismSettings
from tff_textpriv.privacy.no_mechanism import NoPrivacySettings

if TYPE_CHECKING:
  import tensorflow_federated as tff

  from tff_textpriv.iterative_processes import clients
  from tff_textpriv.privacy.mechanism import Mechanism

  Model: TypeAlias = tff.learning.models.FunctionalModel
  Process: TypeAlias = tff.learning.templates.LearningProcess
  Client: TypeAlias = clients.Client
else:
  # What `help` shows of a builder; TFF itself is imported when one is called.
  Model = 'tff.learning.models.FunctionalModel'
  Process = 'tff.learning.templates.LearningProcess'
  Client = 'clients.Client'

LANGUAGE_MODEL = 'language_model'
CLASSIFICATION = 'classification'
KINDS = (LANGUAGE_MODEL, CLASSIFICATION)

# The mechanism that an algorithm has where none is named.
OWN_MECHANISM = 'default'

ALL_USERS = ''
FIRST_HALF = 'first half'
SECOND_HALF = 'second half'


class Keeps(enum.Enum):
  """What a device has that the server never sees."""

  NOTHING = 'nothing'
  # The first weights of the model and the state of their optimizer, from round to round.
  MODEL_PART = 'a part of the model'
  # Something beside the model, which the server has as a whole.
  STATE = 'a state beside the model'
  # The embeddings of private tokens, made anew in each round.
  PRIVATE_ROWS = 'the embeddings of private tokens'


class Leg(NamedTuple):
  """A phase of a run: rounds with one tokenizer.

  Attributes:
    rounds_before: The rounds of all phases before.
    last_round: The number of its last round, counted over all phases.
    users: Who trains, by the ledger's name; `ALL_USERS`, or one half of them.
    continues: Whether the model goes on from the phase before.
  """

  rounds_before: int
  last_round: int
  users: str = ALL_USERS
  continues: bool = False


def _training_client(model: Model, settings: Any) -> Client:
  """Returns a client that trains the whole model, and keeps nothing."""
  from tff_textpriv.iterative_processes import clients

  return clients.training(model, settings)


def gradient_client(model: Model, settings: Any) -> Client:
  """Returns a client that has a gradient to give, and does not train."""
  from tff_textpriv.iterative_processes import clients

  del settings  # They are all the server's.
  return clients.GradientClient(model)


@dataclasses.dataclass(frozen=True)
class Algorithm:
  """An algorithm, as the registry lists it.

  Attributes:
    name: The value of `--algo`.
    summary: One line for `--help`.
    settings: The class of its settings.
    build: Makes the iterative process of a model (which carries the initial weights), an
      instance of `settings` and a mechanism: `initialize`, `next`, `get_model_weights`.
      The type of `next` names what a client reads (see `contract`).
    client: Describes a client of a model and an instance of `settings`: how it trains,
      what it keeps, and so what its update tells.
    privacy: The class of its mechanism's settings.
    mechanisms: The classes of the settings of others that may take its place, by their
      names, which are values of `--mechanism`.
    mechanism: The name of the one that has taken its place.
    kinds: The kinds of task that it can train on.
    keeps: What its devices keep for themselves.
    averages_its_way: Whether it has an average of its own, whose place no other can take.
    gathers_data: Whether it trains on all data in one place, and so has no clients.
    refuses: Why it cannot have the mechanism of some settings, if there is more to say
      than that their flags are not its own.
  """

  name: str
  summary: str
  settings: type[Any]
  build: 'Callable[[Model, Any, Mechanism], Any]'
  client: 'Callable[[Model, Any], Client]' = _training_client
  privacy: type[MechanismSettings] = NoPrivacySettings
  mechanisms: Mapping[str, type[MechanismSettings]] = dataclasses.field(
    default_factory=dict
  )
  mechanism: str = OWN_MECHANISM
  kinds: tuple[str, ...] = KINDS
  keeps: Keeps = Keeps.NOTHING
  averages_its_way: bool = False
  gathers_data: bool = False
  refuses: Mapping[type[MechanismSettings], str] = dataclasses.field(
    default_factory=dict
  )

  @property
  def choices(self) -> 'dict[str, Algorithm]':
    """The algorithm under each mechanism that it may have, by its name; its own first."""
    return {
      self.mechanism: self,
      **{
        name: dataclasses.replace(self, privacy=privacy, mechanism=name)
        for name, privacy in self.mechanisms.items()
      },
    }

  @property
  def keeps_state(self) -> bool:
    """Whether devices keep something from round to round."""
    return self.keeps in (Keeps.MODEL_PART, Keeps.STATE)

  @property
  def has_whole_model(self) -> bool:
    """Whether the server has all of the model."""
    return self.keeps in (Keeps.NOTHING, Keeps.STATE)
