# SPDX-License-Identifier: Apache-2.0
"""What users write: YAML and JSON that must neither kill nor stall who reads it."""

import subprocess
import sys

import pytest
import yaml

from climate_core import exceptions
from climate_core.plugins import stack_templates


def read(text, field='template'):
    """Return what is read."""
    return stack_templates.parse_template(text, field)


def refused(text, field='template'):
    """Return why it is not read."""
    with pytest.raises(exceptions.BadRequest, match='must be YAML or JSON') as caught:
        read(text, field)
    assert caught.value.field == field
    return caught.value.message


def bomb(levels, join='<<: [{}]'):
    """Return names that stand for ten times what the one before stands for."""
    lines = ['k0: &k0 {a: 1}']
    for n in range(1, levels):
        ten = ', '.join([f'*k{n - 1}'] * 10)
        lines.append(f'k{n}: &k{n} {{{join.format(ten)}}}')
    return '\n'.join(lines)


#: What kills the process, or takes minutes or all the memory.
DEADLY = {
    'a list in a list': 'a: ' + '[' * 26000,
    'an object in an object': '{a: ' * 26000,
    'a list in a list, in lines': '- ' * 26000,
    'a key of a key': '? ' * 26000,
    'merge keys': bomb(12),
    'aliases': bomb(12, 'a: [{}]'),
    'two merge keys': 'k0: &k0 {a: 1}\n'
    + '\n'.join(f'k{n}: &k{n} {{<<: *k{n - 1}, "<<": *k{n - 1}}}' for n in range(1, 60)),
    'a part of itself': 'a: &a {b: *a}',
    'very many values': 'a: [' + 'x, ' * 300_000 + ']',
}


@pytest.mark.parametrize('text', DEADLY.values(), ids=DEADLY)
@pytest.mark.parametrize('field', ['template', 'environment'])
def test_text_that_must_not_be_loaded_is_refused(monkeypatch, text, field):
    monkeypatch.setattr(yaml, 'load', None)
    refused(text, field)


@pytest.mark.parametrize('end', ['', '.0'])
def test_numbers_in_base_60(end):
    """Python takes minutes for long ones."""
    assert 'digits' in refused('a: 1' + ':1' * 500_000 + end)


def test_deep_text_does_not_end_the_process():
    """A crash in C would take the tests along."""
    code = (
        'from climate_core.plugins import stack_templates\n'
        'try:\n'
        '    stack_templates.parse_template("a: " + "[" * 26000, "template")\n'
        'except Exception as exc:\n'
        '    print(type(exc).__name__)\n'
    )
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == 'BadRequest'


@pytest.mark.parametrize('text', ['a: {}', '{{"a": {}}}'], ids=['yaml', 'json'])
def test_how_deep_it_may_be(text):
    """With the outermost, which is one itself."""
    within = stack_templates.MAX_DEPTH - 1
    assert isinstance(read(text.format('[' * within + ']' * within)), dict)
    assert 'levels deep' in refused(text.format('[' * (within + 1) + ']' * (within + 1)))


def test_an_object_that_is_too_deep():
    value = []
    for _ in range(stack_templates.MAX_DEPTH):
        value = [value]
    assert 'levels deep' in refused({'a': value})


@pytest.mark.parametrize(
    'text',
    [
        'parameters: {a: !!bool foo}',
        "parameters: {a: !!int ''}",
        "parameters: {a: !!float ''}",
        'a: !!timestamp [b]',
        'a: !!omap b',
        'a: *nothing',
        '[a]: b\n',
        '{[a]: b}',
        'a: 0x' + 'f' * 5000,
    ],
)
def test_odd_yaml_is_refused(text):
    refused(text)


def test_how_anchors_are_meant():
    text = 'base: &base {type: string}\nflavor: {<<: *base, default: small}\nimage: *base'
    assert read(text) == {
        'base': {'type': 'string'},
        'flavor': {'type': 'string', 'default': 'small'},
        'image': {'type': 'string'},
    }


def test_dates_and_numbers_are_read_as_heat_does():
    assert read('a: 2021-04-16\nb: 1:30\nc: 1.5\nd: yes') == {
        'a': '2021-04-16',
        'b': 90,
        'c': 1.5,
        'd': True,
    }
