"""What is attacked: sentences of a task, a model, a public table, an algorithm's clients."""

import functools
from collections.abc import Sequence

import numpy as np

from tff_textpriv import randomness
from tff_textpriv import settings as settings_lib
from tff_textpriv.attacks import attackers as attackers_lib
from tff_textpriv.attacks import campaign as campaign_lib
from tff_textpriv.attacks import observations, public_text, rounds
from tff_textpriv.attacks.inversion_settings import InversionSettings
from tff_textpriv.datasets import labelled
from tff_textpriv.privacy import mechanism
from tff_textpriv.text import tokens, word_vectors
from tff_textpriv.training import experiment as experiment_lib
from tff_textpriv.training import vocabularies

_DEFAULT_CLIENTS = 100
# All clients start with one table where users start differently: one's own.
_ATTACKED = 'attacked'
# Training texts that stand for public ones: more of them say nothing new.
_PUBLIC_TEXTS = 20_000


class Scene:
  """Sentences, a model and a public embedding table.

  Attributes:
    sentences: What is attacked: test examples with enough private tokens.
    model: The classifier; its first weight is the table.
    vocabulary: The tokens of the table's rows; the last row is that of all others.
    weights: The model's weights as the server hands them out, table first.
  """

  def __init__(
    self,
    chosen: experiment_lib.Experiment,
    num_sentences: int,
    num_private: int,
    known_vectors: str | None = None,
  ):
    """Reads the data and makes the model.

    Args:
      chosen: An experiment; its task's settings and seed count.
      num_sentences: How many sentences to attack.
      num_private: Private tokens that each must have.
      known_vectors: A file of vectors that attackers know, if users start from others.
    """
    task = chosen.task_settings
    if not task.reads_tokens:
      raise settings_lib.SettingsError(
        'model', task.model, 'has no embedding; take a BiLSTM or an encoder'
      )
    self._seed = chosen.run.seed
    data: labelled.LabelledData = chosen.task.load(task, self._seed)
    split = vocabularies.splitter(task)
    index = tokens.TokenIndex(split)
    encoded = index.encode(data.train.texts)
    start = vocabularies.StartVectors(task, index, task.vocab_size or 0, self._seed)
    vocabulary = vocabularies.common_vocabulary(
      task, start.public, data.train.text_of, encoded, index
    )
    self.vocabulary = [*vocabulary.tokens, tokens.UNKNOWN]
    self.model = vocabularies.make_model(
      task, vocabulary.num_rows, len(data.classes), start.width
    )
    self._own_table = functools.partial(
      start.table, self.model, vocabulary, different_for=_ATTACKED
    )
    self._known = None
    if known_vectors is not None:
      found = word_vectors.read_some(known_vectors, set(vocabulary.tokens))
      self._known = np.stack(
        [found.of_word.get(token, found.mean) for token in self.vocabulary]
      )
    self.weights = [
      start.table(self.model, vocabulary),
      *self.model.initial_shared_weights(self._seed),
    ]
    self.sentences = _choose(
      _read(data.test, split), num_sentences, num_private, self._seed
    )
    # Padding's row, the last, is that of no token of a text.
    row_of = vocabulary.lookup(index)
    self._public_text = public_text.PublicText(
      [row_of[encoded.row(text)] for text in data.train.text_of[:_PUBLIC_TEXTS]],
      len(self.vocabulary),
    )
    known = set(vocabulary.tokens)
    unknown = [token not in known for one in self.sentences for token in one.tokens]
    self.summary = (
      f'{len(self.sentences)} sentences of {data.name} with {num_private} private tokens '
      f'or more, cut off at {task.max_words} tokens ({np.mean(unknown):.1%} of which are '
      f'not in the vocabulary); {task.model}, dropout {task.dropout:g}, '
      f'{len(self.vocabulary):,} rows of {self.model.embedding_size} numbers '
      f'({"drawn" if start.width is None else "from a file"}).'
    )

  def limits(self, sizes: Sequence[int]) -> list[str]:
    """Says, in sentences, what of the scene hides texts from attacks."""
    said = []
    if self.model.dropout:
      said.append(
        f'Dropout of {self.model.dropout:g} hides from span and dlg; --dropout=0 does not.'
      )
    width, longest = self.model.embedding_size, max(map(_length, self.sentences))
    hidden = sorted(size for size in sizes if size * longest >= width)
    if hidden:
      said.append(
        f'Messages of {hidden[0]} may have {hidden[0] * longest} tokens, and what the '
        f'first kernel reads has {width} numbers: span is then less sure; --max_words '
        'makes texts shorter.'
      )
    return said

  def campaign(
    self,
    chosen: experiment_lib.Experiment,
    attacks: Sequence[str],
    inversion: InversionSettings,
    *,
    view: str,
    client_sentences: int,
    rounds_before: int,
  ) -> campaign_lib.Campaign:
    """Prepares the attacks on an algorithm's clients.

    Args:
      chosen: The experiment.
      attacks: Which attacks to make.
      inversion: How gradients are inverted.
      view: Who looks.
      client_sentences: How many of the sentences each client has.
      rounds_before: Rounds in which the clients have trained on them before.
    """
    client = observations.Client(
      chosen.algorithm,
      chosen.algorithm_settings,
      _mechanism(chosen, self.model.num_parameters),
      self.model,
      view,
      num_private=sum(map(tokens.has_digit, self.vocabulary)),
    )
    attackers = attackers_lib.Attackers(
      self.model,
      self.weights[0],
      self._public_text,
      attacks,
      inversion,
      self._seed,
      self._known,
    )
    differ = getattr(chosen.algorithm_settings, 'different_init', False)
    table = self._own_table() if differ else self.weights[0]
    return campaign_lib.Campaign(
      client,
      [table, *self.weights[1:]],
      self.vocabulary,
      self.sentences,
      client_sentences,
      rounds_before,
      attackers,
      tokens.has_digit,
      self._seed,
    )


def _length(sentence: rounds.Sentence) -> int:
  return len(sentence.tokens)


def _read(examples: labelled.Examples, split: tokens.Split) -> list[rounds.Sentence]:
  """Splits texts into tokens."""
  return [
    rounds.Sentence(tuple(split(examples.texts[text])), int(label))
    for text, label in zip(examples.text_of, examples.labels, strict=True)
  ]


def _choose(
  sentences: list[rounds.Sentence], number: int, num_private: int, seed: int
) -> list[rounds.Sentence]:
  """Draws sentences with enough private tokens."""
  fit = [
    sentence
    for sentence in sentences
    if sum(map(tokens.has_digit, sentence.tokens)) >= num_private and sentence.tokens
  ]
  if len(fit) < number:
    raise settings_lib.SettingsError(
      'sentences',
      number,
      f'only {len(fit)} test examples have --private_tokens={num_private}',
    )
  picked = randomness.generator(seed, 'attacked').choice(
    len(fit), number, replace=False
  )
  return [fit[place] for place in picked]


def _mechanism(
  chosen: experiment_lib.Experiment, num_coordinates: int
) -> mechanism.Mechanism:
  """Makes the mechanism of a run on so many clients as the task says."""
  num_clients = chosen.task_settings.num_clients or _DEFAULT_CLIENTS
  cohort = chosen.run.clients_per_round or num_clients
  return chosen.privacy_settings.mechanism(
    mechanism.Deployment(
      sampling=chosen.cohort_sampling,
      population=num_clients,
      cohort=cohort,
      separation=max(1, num_clients // cohort),
      rounds=chosen.run.total_rounds,
      stream=chosen.stream,
      num_coordinates=num_coordinates,
      client_step=chosen.algorithm_settings.client_step,
    )
  )
