"""The workload's loss in NumPy: a judge that owes nothing to any contender."""

from collections.abc import Sequence

import numpy as np

from benchmarks import workloads


def loss(weights: Sequence[np.ndarray], clients: Sequence[list]) -> float:
  """Mean negative log-likelihood per token of an LSTM language model.

  Args:
    weights: Embedding; kernel, recurrent kernel and bias of the LSTM; kernel and
      bias of the projection and of the output.
    clients: Of each client its batches, of each batch its rows.

  Returns:
    The mean over all tokens.
  """
  total, count = 0.0, 0
  for rows in (rows for batches in clients for rows in batches):
    inputs, targets = workloads.pad(rows)
    logits = _logits(weights, inputs)
    largest = logits.max(axis=-1, keepdims=True)
    log_sum = np.log(np.exp(logits - largest).sum(axis=-1)) + largest[..., 0]
    likelihood = np.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    mask = targets != workloads.PAD_ID
    total += float(((log_sum - likelihood) * mask).sum())
    count += int(mask.sum())
  return total / count


def _logits(weights: Sequence[np.ndarray], tokens: np.ndarray) -> np.ndarray:
  embedding, kernel, recurrent, bias, *dense = weights
  h = c = np.zeros((len(tokens), recurrent.shape[0]), np.float32)
  outputs = []
  for step in range(tokens.shape[1]):
    gates = embedding[tokens[:, step]] @ kernel + h @ recurrent + bias
    i, f, g, o = np.split(gates, 4, axis=1)
    c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
    h = _sigmoid(o) * np.tanh(c)
    outputs.append(h)
  projection, projection_bias, output, output_bias = dense
  hidden = np.stack(outputs, axis=1) @ projection + projection_bias
  return hidden @ output + output_bias


def _sigmoid(x: np.ndarray) -> np.ndarray:
  return 1 / (1 + np.exp(-x))
