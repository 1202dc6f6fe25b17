"""What this folder raises."""


class PrivacyError(ValueError):
  """A privacy claim that would not hold, or that cannot be computed."""
