"""The training program: the loop, its checkpoints, its releases, evaluation."""
