"""The client of the round in Flower; Ray's actors import it."""

import functools
import pathlib

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from benchmarks import workloads
from benchmarks.contenders.peers import torch_model

app = ClientApp()


@functools.lru_cache(maxsize=1)
def _load(folder: str) -> workloads.Workload:
  """Reads the workload once in an actor."""
  torch.set_num_threads(1)
  return workloads.load(pathlib.Path(folder))


@app.train()
def _train(message: Message, context: Context) -> Message:
  """Trains a client on its batches."""
  workload = _load(message.content['config']['folder'])
  network = torch_model.LanguageModel(message.content['arrays'].to_numpy_ndarrays())
  optimizer = torch.optim.SGD(network.parameters(), workloads.CLIENT_LEARNING_RATE)
  client = int(context.node_config['partition-id'])
  for inputs, targets in torch_model.batches(workload.batches[client]):
    optimizer.zero_grad()
    network.loss(inputs, targets).backward()
    optimizer.step()
  content = RecordDict(
    {
      'arrays': ArrayRecord(network.weights()),
      # What means are weighted with: clients count alike.
      'metrics': MetricRecord({'num-examples': 1}),
    }
  )
  return Message(content=content, reply_to=message)
