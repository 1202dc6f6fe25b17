"""The classes of a batch, read off the gradient of the output bias."""

import numpy as np

_EPSILON = 1e-12


def infer_labels(
  bias_gradient: np.ndarray | None, batch_size: int, predicted: np.ndarray
) -> np.ndarray:
  """Reads the classes of a batch off the gradient of the output bias.

  It is the mean, over the batch, of probability minus truth. For one example the class
  is where it is negative; for more, the number of each class is what the model
  predicts for anything less the gradient, times the batch's size. Which example has
  which class does not matter, since it does not matter which comes first.

  Args:
    bias_gradient: The gradient [outputs]; `None` if it was not seen.
    batch_size: The number of examples.
    predicted: The mean probability of each output [outputs].

  Returns:
    The classes, as probabilities that are 0 or 1 [batch, outputs]; what is predicted,
    if there is nothing to read.
  """
  if bias_gradient is None:
    return np.tile(predicted, (batch_size, 1))
  shares = predicted - bias_gradient
  if len(shares) == 1:
    if batch_size == 1:
      return np.array([[float(bias_gradient[0] < 0)]])
    positives = int(np.clip(np.round(batch_size * shares[0]), 0, batch_size))
    return (np.arange(batch_size) < positives).astype(np.float64)[:, np.newaxis]
  if batch_size == 1:
    classes = np.array([np.argmin(bias_gradient)])
  else:
    shares = np.maximum(shares, 0)
    wanted = batch_size * shares / max(shares.sum(), _EPSILON)
    counts = np.floor(wanted).astype(int)
    by_remainder = np.argsort(counts - wanted)
    counts[by_remainder[: batch_size - counts.sum()]] += 1
    classes = np.repeat(np.arange(len(counts)), counts)
  return np.eye(len(shares))[classes]
