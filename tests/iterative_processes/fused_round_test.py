"""A round in which a client runs one graph, against the round as it is written."""

import numpy as np
import tensorflow_federated as tff
from tensorflow_federated.python.core.impl.compiler import (
  building_blocks,
  tree_analysis,
)

from tff_textpriv.iterative_processes import fused_round

_STATE = tff.FederatedType(np.int32, tff.SERVER)
_DATA = tff.FederatedType(np.int32, tff.CLIENTS)


@tff.tensorflow.computation(np.int32, np.int32)
def _add(a, b):
  return a + b


@tff.tensorflow.computation(np.int32, np.int32)
def _multiply(a, b):
  return a * b


@tff.federated_computation(_STATE, _DATA)
def _of_many_maps(state, values):
  received = tff.federated_broadcast(state)
  sums = tff.federated_map(_add, (values, received))
  products = tff.federated_map(_multiply, (sums, values))
  total = tff.federated_sum(tff.federated_map(_add, (products, sums)))
  return tff.federated_map(_add, (state, total)), total


@tff.federated_computation(_STATE, _DATA)
def _of_dependent_sums(state, values):
  total = tff.federated_broadcast(tff.federated_sum(values))
  again = tff.federated_sum(tff.federated_map(_multiply, (values, total)))
  return tff.federated_map(_add, (state, again)), again


@tff.federated_computation(_STATE, _DATA)
def _of_a_secure_sum(state, values):
  total = tff.federated_secure_sum_bitwidth(values, 8)
  return tff.federated_map(_add, (state, total)), total


def _num_client_maps(computation: tff.Computation) -> int:
  def is_client_map(block) -> bool:
    return (
      isinstance(block, building_blocks.Call)
      and isinstance(block.function, building_blocks.Intrinsic)
      and block.function.uri.startswith('federated_map')
      and block.type_signature.placement is tff.CLIENTS
      and isinstance(block.argument[0], building_blocks.CompiledComputation)
    )

  return tree_analysis.count(computation.to_building_block(), is_client_map)


def test_a_client_runs_one_graph_and_the_result_is_the_same(tff_runtime):
  fused = fused_round.fuse(_of_many_maps)
  assert fused.type_signature == _of_many_maps.type_signature
  # (1 + 10) * 1 + 11 + (2 + 10) * 2 + 12 = 58
  assert fused(10, [1, 2]) == _of_many_maps(10, [1, 2]) == (68, 58)
  assert fused(10, []) == _of_many_maps(10, [])
  assert str(fused.to_building_block()).count('federated_aggregate') == 1
  assert (_num_client_maps(fused), _num_client_maps(_of_many_maps)) == (1, 3)


def test_a_round_of_another_form_is_left_as_it_is(tff_runtime):
  assert fused_round.fuse(_of_a_secure_sum) is _of_a_secure_sum
  assert fused_round.fuse(_of_dependent_sums) is _of_dependent_sums
  assert _of_dependent_sums(1, [2, 3]) == (26, 25)
