"""A round whose clients run one graph each, however many steps it is written in.

TFF composes a round of many maps: batches, training, checking, clipping, weighting. A
worker would start a graph for each of them and each client, and hand all weights on
from one to the next. TFF's compiler for map-reduce systems finds what a client does
between receiving and sending; put together again from that, the round gives the same
results in fewer calls.
"""

import tensorflow as tf
import tensorflow_federated as tff


def fuse(next_round: tff.Computation) -> tff.Computation:
  """Rewrites a round as one graph before, for each client, and after the aggregation.

  Args:
    next_round: Takes the server's state and the clients' data, and returns the new
      state and measurements, all of them the server's.

  Returns:
    A computation of the same type. It is the given one if the round has another form:
    messages that depend on an aggregate of the same round, or secure sums, which only
    systems that have them can take apart. Users' own aggregators may be like that.
  """
  form = _map_reduce_form(next_round)
  if form is None:
    return next_round
  (state_name, _), (output_name, _) = tff.structure.iter_elements(
    next_round.type_signature.result
  )

  @tff.federated_computation(next_round.type_signature.parameter)
  def fused(arguments):
    state, client_data = arguments
    received = tff.federated_broadcast(tff.federated_map(form.prepare, state))
    results = tff.federated_map(form.work, tff.federated_zip((client_data, received)))
    aggregate = tff.federated_aggregate(
      results[0], form.zero(), form.accumulate, form.merge, form.report
    )
    nothing = tff.federated_value((), tff.SERVER)
    output = tff.federated_map(
      form.update,
      tff.federated_zip(
        (state, tff.federated_zip((aggregate, nothing, nothing, nothing)))
      ),
    )
    return tff.structure.Struct([(state_name, output[0]), (output_name, output[1])])

  # TFF's compiler forgets which containers the round returns.
  return tff.framework.ConcreteComputation.with_type(fused, next_round.type_signature)


def _map_reduce_form(
  next_round: tff.Computation,
) -> tff.backends.mapreduce.MapReduceForm | None:
  """Takes a round apart; `None` if it is not of that form, or sums securely."""
  # Workers optimize graphs themselves.
  as_they_are = tf.compat.v1.ConfigProto()
  as_they_are.graph_options.rewrite_options.disable_meta_optimizer = True
  try:
    form = tff.backends.mapreduce.get_map_reduce_form_for_computation(
      next_round, as_they_are
    )
  except ValueError:
    # TFF's way to say that a broadcast depends on an aggregate.
    return None
  _, *secure = form.work.type_signature.result
  return None if any(map(len, secure)) else form
