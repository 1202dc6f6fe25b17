"""The registry of contenders names modules and environments that exist."""

import ast
import pathlib

import pytest

from benchmarks import processes

_ROOT = pathlib.Path(__file__).parents[2]
_CONTENDERS = _ROOT / 'benchmarks/contenders'
_REQUIREMENTS = {
  file.stem: file.read_text() for file in (_ROOT / 'benchmarks/peers').glob('*.txt')
}


def _syntax(command):
  file = _CONTENDERS.joinpath(*command.module.split('.')).with_suffix('.py')
  return ast.parse(file.read_text())


@pytest.mark.parametrize('name', processes.COMMANDS)
def test_a_contender_can_be_prepared_asked_for_rounds_and_for_weights(name):
  syntax = _syntax(processes.COMMANDS[name])
  methods = [
    {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
    for node in syntax.body
    if isinstance(node, ast.ClassDef)
  ]
  assert any({'prepare', 'run_round', 'weights'} <= each for each in methods)


@pytest.mark.parametrize('name', processes.COMMANDS)
def test_a_contender_is_a_peer_if_and_only_if_it_has_an_environment(name):
  command = processes.COMMANDS[name]
  assert command.module.startswith('peers.') == (command.peers is not None)


def test_every_environment_is_used_and_has_requirements():
  used = {command.peers for command in processes.COMMANDS.values()} - {None}
  assert used == set(_REQUIREMENTS)


@pytest.mark.parametrize('name', _REQUIREMENTS)
def test_requirements_are_pinned(name):
  lines = _REQUIREMENTS[name].splitlines()
  requirements = [line for line in lines if not line.startswith('#')]
  assert requirements
  assert all('==' in line for line in requirements)


def test_peers_need_neither_tensorflow_nor_our_package():
  for file in (_CONTENDERS / 'peers').glob('*.py'):
    imported = {
      name.split('.')[0]
      for node in ast.walk(ast.parse(file.read_text()))
      for name in (
        [each.name for each in node.names]
        if isinstance(node, ast.Import)
        else [node.module or '']
        if isinstance(node, ast.ImportFrom)
        else []
      )
    }
    assert not imported & {'tensorflow', 'tensorflow_federated', 'tff_textpriv'}


def test_a_contender_without_its_environment_is_left_out_with_advice(
  tmp_path, monkeypatch, capsys
):
  monkeypatch.setattr(processes, '_PEERS', tmp_path / 'nowhere')
  assert processes.start(['plain_jax'], tmp_path, stack=None) == []
  message = capsys.readouterr().out
  assert 'plain_jax' in message and 'make benchmark-peers' in message


def test_processes_that_work_together_find_each_other():
  first, second = processes._ranks(2)
  assert (first['RANK'], second['RANK']) == ('0', '1')
  assert first['MASTER_PORT'] == second['MASTER_PORT']
  assert processes._ranks(1) == [{}]
