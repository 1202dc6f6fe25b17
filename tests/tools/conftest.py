"""What the tests of studies share."""

import pytest
import stand_in_run


@pytest.fixture
def stand_in(monkeypatch):
  """Returns what puts a stand-in for training in the place of a module's `run`.

  It takes the module, a function from (experiment, number of the run) to the results,
  and the text of metrics.csv, if any; it returns the list in which the experiments that
  were run are remembered.
  """

  def put(module, results_of, metrics=None):
    done = []

    def run(experiment):
      done.append(experiment)
      stand_in_run.write(experiment, results_of(experiment, len(done)), metrics)
      return 0

    monkeypatch.setattr(module, 'run', run)
    return done

  return put
