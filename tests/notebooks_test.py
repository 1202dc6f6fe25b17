"""The notebooks: clean files whose cells are understood, and that run to their end."""

import os
import pathlib
import re

import nbclient
import nbformat
import pytest
import snippets
from IPython.core import inputtransformer2

import tff_textpriv
from tff_textpriv import api, results

_ROOT = pathlib.Path(tff_textpriv.__file__).parents[1]
_NOTEBOOKS = sorted((_ROOT / 'notebooks').glob('*.ipynb'))
_QUICKEST = _ROOT / 'notebooks' / 'rr_ldp.ipynb'
# A cell that takes so many seconds hangs, even on a machine that does much else.
_LONGEST = 1200
_SCRIPT = '%%script {PY} -u\n'

_each_notebook = pytest.mark.parametrize('file', _NOTEBOOKS, ids=lambda file: file.stem)


def _read(file):
  return nbformat.read(file, as_version=nbformat.NO_CONVERT)


def _code(file) -> list[str]:
  return [cell.source for cell in _read(file).cells if cell.cell_type == 'code']


def test_every_method_has_a_notebook():
  names = {file.stem for file in _NOTEBOOKS}
  assert {'subword_resample', 'rr_ldp', 'fed_att', 'fede_vocab'} <= names


@_each_notebook
def test_a_notebook_is_valid_and_keeps_no_output(file):
  notebook = _read(file)
  nbformat.validate(notebook)
  assert notebook.nbformat == 4
  assert notebook.metadata.kernelspec.name == 'python3'
  for cell in notebook.cells:
    if cell.cell_type == 'code':
      assert cell.outputs == [] and cell.execution_count is None


def test_all_install_in_the_same_way():
  first_cells = {_code(file)[0] for file in _NOTEBOOKS}
  assert len(first_cells) == 1
  assert '--require-hashes' in first_cells.pop()


@_each_notebook
def test_every_cell_is_python_or_ipython(file):
  transform = inputtransformer2.TransformerManager().transform_cell
  for source in _code(file):
    compile(transform(source), file.name, 'exec')
    if source.startswith('%%'):
      assert source.startswith(_SCRIPT), source
      compile(source.removeprefix(_SCRIPT), file.name, 'exec')


@_each_notebook
def test_every_run_and_command_is_understood(file, monkeypatch, tmp_path):
  monkeypatch.chdir(tmp_path)
  experiments = []
  monkeypatch.setattr(api.base, 'run', lambda each: experiments.append(each) or 0)
  monkeypatch.setattr(results, 'load', lambda folder: None)
  for source in _code(file):
    if 'posts.csv' in source and 'csv.writer' in source:
      exec(source, {'pathlib': pathlib})
    if source.startswith(_SCRIPT) and 'tff_textpriv.run(' in source:
      exec(source.removeprefix(_SCRIPT), {})
  commands = [
    ['python', *snippets.split(command)]
    for source in _code(file)
    for command in re.findall(r'^!"{PY}" (-m .*)$', source, re.M)
  ]
  assert experiments or commands
  folders = [experiment.folder for experiment in experiments]
  assert len(set(folders)) == len(folders)
  assert snippets.refused(commands, _ROOT) == {}


@_each_notebook
def test_links_lead_to_files(file):
  text = '\n'.join(c.source for c in _read(file).cells if c.cell_type == 'markdown')
  for link in re.findall(r'\]\(([^)#]+)[^)]*\)', text):
    assert (file.parent / link).exists(), link


def _execute(file, folder, monkeypatch):
  """Runs a notebook in a folder; returns it with its outputs."""
  monkeypatch.setenv('PYTHONPATH', str(_ROOT), prepend=os.pathsep)
  notebook = _read(file)
  nbclient.NotebookClient(
    notebook,
    timeout=_LONGEST,
    kernel_name='python3',
    resources={'metadata': {'path': str(folder)}},
  ).execute()
  return notebook


def _check_outputs(notebook):
  kinds = {
    kind
    for cell in notebook.cells
    if cell.cell_type == 'code'
    for output in cell.outputs
    for kind in output.get('data', {})
  }
  assert {'image/png', 'text/markdown'} <= kinds


@pytest.mark.slow
def test_the_quickest_notebook_runs_and_shows_plot_and_card(tmp_path, monkeypatch):
  _check_outputs(_execute(_QUICKEST, tmp_path, monkeypatch))


@pytest.mark.slow
@pytest.mark.parametrize(
  'file', [file for file in _NOTEBOOKS if file != _QUICKEST], ids=lambda file: file.stem
)
def test_a_notebook_runs_and_shows_plots_and_cards(file, tmp_path, monkeypatch):
  _check_outputs(_execute(file, tmp_path, monkeypatch))
