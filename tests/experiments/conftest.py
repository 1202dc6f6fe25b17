"""What the tests of studies share."""

import pytest
import stand_in_run

from tff_textpriv.tasks import base


@pytest.fixture
def stand_in(monkeypatch):
  """Returns what puts a stand-in in the place of training.

  It takes a function from (experiment, number of the run) to the results, and the text
  of metrics.csv, if any; it returns the list in which the experiments that were run to
  their end are remembered.
  """

  def put(results_of, metrics=None):
    done = []

    def run(experiment):
      stop = experiment.machine.stop_after_round
      if stop is not None:
        stand_in_run.write_stopped(experiment, stop)
        return 130
      done.append(experiment)
      stand_in_run.write(experiment, results_of(experiment, len(done)), metrics)
      return 0

    monkeypatch.setattr(base, 'run', run)
    return done

  return put


@pytest.fixture
def runs(stand_in):
  """A stand-in with figures of all kinds of runs."""
  metrics = (
    'round,validation_word_perplexity,validation_token_perplexity,validation_auc\n'
    '1,,,0.6125\n2,90.5,190.5,\n4,80.25,95.25,\n5,,,0.75\n25,,,0.875\n'
  )

  def results(experiment, number):
    no_guarantee = getattr(experiment.task_settings, 'tokenizer_source', '') == 'oracle'
    return {
      'epsilon': None if no_guarantee else 2.0,
      'tokenizer_kl': 0.5,
      'tokenizer_kl_floor': 0.01,
      'selected_round': 2,
      # Every third run never reaches its target.
      'rounds_to_target': None if number % 3 == 0 else 4,
      'bytes_down_per_client': 1000,
      'bytes_up_per_client': 1000,
      'test_oov_share': 0.01,
      'test_tokens_per_word': 1.25,
      'test_word_accuracy': 0.2,
      'test_word_perplexity': 100.0 + number,
      'test_token_perplexity': 100.0 + number,
      'test_auc': 0.8765,
      'test_accuracy': 0.8125,
      'test_global_accuracy': 0.8125,
      'test_local_accuracy': 0.875,
      'test_received_local_accuracy': 0.75,
    }

  return stand_in(results, metrics)
