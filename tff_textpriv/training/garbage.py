"""Python's garbage in a long run: collected often, because that is cheap here.

TensorFlow's graphs refer to themselves, so that only the collector frees them, and a
checkpoint makes a megabyte of them. By itself the collector waits until there is a
quarter as much that is new as there is in all, and TFF alone is a million objects: a run
would grow by a hundred megabytes first.
"""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_callbacks() -> Iterator[None]:
  """Keeps others' callbacks from the collector in the block.

  What is raised in a callback is printed and lost, and so is a Ctrl-C that happens to
  fall there. JAX, which TFF imports, has one.
  """
  callbacks = gc.callbacks[:]
  gc.callbacks.clear()
  try:
    yield
  finally:
    gc.callbacks.extend(callbacks)


@contextlib.contextmanager
def old_set_aside() -> Iterator[None]:
  """Lets the collector look, in the block, only at what the block has made.

  What was set aside before the block, by whomever, stays so after it.
  """
  is_outermost = gc.get_freeze_count() == 0
  gc.collect()
  gc.freeze()
  try:
    yield
  finally:
    if is_outermost:
      gc.unfreeze()
