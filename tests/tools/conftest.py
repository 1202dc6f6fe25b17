"""What the tests of studies share."""

import json

import pytest


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
      folder = experiment.folder
      folder.mkdir(parents=True)
      (folder / 'config.json').write_text(json.dumps(experiment.config))
      if metrics is not None:
        (folder / 'metrics.csv').write_text(metrics)
      results = results_of(experiment, len(done))
      (folder / 'results.json').write_text(json.dumps(results))
      return 0

    monkeypatch.setattr(module, 'run', run)
    return done

  return put
