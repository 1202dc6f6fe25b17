"""What a stand-in for training leaves in a run's folder."""

import json


def write(experiment, results, metrics=None):
  """Writes the files of a run of the experiment: these results, and metrics.csv."""
  folder = experiment.folder
  folder.mkdir(parents=True, exist_ok=True)
  (folder / 'config.json').write_text(json.dumps(experiment.config))
  if metrics is not None:
    (folder / 'metrics.csv').write_text(metrics)
  (folder / 'results.json').write_text(json.dumps(results))
