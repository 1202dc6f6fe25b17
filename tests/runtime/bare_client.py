"""Whoever reaches a TFF worker can have it compute: a client without TFF, a program.

  python bare_client.py ADDRESS VALUE [KEYS]

VALUE is a file with a computation without arguments, as TFF sends it. The answer is
printed as it came; the exit code is 3 if there is none. KEYS is a file of keys, or of
an authority alone, for a worker behind TLS. Of TFF only the messages are
loaded, without the package around them, which takes long to import.
"""

import importlib.util
import pathlib
import sys
import types

import grpc

SECONDS = 3.0
NO_ANSWER = 3
_BEGIN = b'-----BEGIN CERTIFICATE-----'


def ask(address: str, value: bytes, keys: bytes | None = None) -> bytes:
  """Has a worker compute; returns its serialized answer, or raises `RpcError`."""
  computations, pb2, stubs = _messages()
  nobody = pb2.Cardinality(placement=computations.Placement(uri='clients'))
  with _channel(address, keys) as channel:
    stub = stubs.ExecutorGroupStub(channel)
    executor = stub.GetExecutor(
      pb2.GetExecutorRequest(cardinalities=[nobody]), timeout=SECONDS
    ).executor
    function = stub.CreateValue(
      pb2.CreateValueRequest(executor=executor, value=pb2.Value.FromString(value)),
      timeout=SECONDS,
    )
    called = stub.CreateCall(
      pb2.CreateCallRequest(executor=executor, function_ref=function.value_ref),
      timeout=SECONDS,
    )
    computed = stub.Compute(
      pb2.ComputeRequest(executor=executor, value_ref=called.value_ref),
      timeout=SECONDS,
    )
    return computed.SerializeToString()


def _channel(address: str, keys: bytes | None) -> grpc.Channel:
  options = [('grpc.enable_http_proxy', 0)]
  if keys is None:
    return grpc.insecure_channel(address, options)
  options.append(('grpc.ssl_target_name_override', 'a-1.worker.tff-textpriv'))
  *own, authority = keys.split(_BEGIN)
  key, certificate = (own[0], _BEGIN + own[1]) if own[1:] else (None, None)
  credentials = grpc.ssl_channel_credentials(_BEGIN + authority, key, certificate)
  return grpc.secure_channel(address, credentials, options)


def _messages() -> tuple[types.ModuleType, ...]:
  package = 'tensorflow_federated'
  if package not in sys.modules:
    origin = importlib.util.find_spec(package).origin
    hollow = types.ModuleType(package)
    hollow.__path__ = [str(pathlib.Path(origin).parent)]
    sys.modules[package] = hollow
  from tensorflow_federated.proto.v0 import (
    computation_pb2,
    executor_pb2,
    executor_pb2_grpc,
  )

  return computation_pb2, executor_pb2, executor_pb2_grpc


if __name__ == '__main__':
  address, *files = sys.argv[1:]
  try:
    answer = ask(address, *(pathlib.Path(file).read_bytes() for file in files))
  except grpc.RpcError as error:
    print(error.code(), error.details(), file=sys.stderr)
    sys.exit(NO_ANSWER)
  sys.stdout.buffer.write(answer)
