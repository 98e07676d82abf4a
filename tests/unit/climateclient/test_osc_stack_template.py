# SPDX-License-Identifier: Apache-2.0
"""``openstack lease ... --stack-template``: the real shell and python-heatclient, real files."""

import json
import pathlib
import sys

import pytest

from tests.unit.climateclient import samples
from tests.unit.climateclient.samples import ENDPOINT, LEASE_ID, STACK_ID

LEASES = f'{ENDPOINT}/leases'
LEASE = f'{LEASES}/{LEASE_ID}'
CREATE = ('lease', 'create', 'lease1', '--for', '3h', '--stack-name', 'web')

TOP = """
heat_template_version: 2021-04-16
parameters:
  flavor: {type: string}
resources:
  server:
    type: OS::Nova::Server
    properties:
      flavor: {get_param: flavor}
      user_data: {get_file: boot.sh}
  nested:
    type: parts/nested.yaml
"""
NESTED = """
heat_template_version: 2021-04-16
resources:
  deeper:
    type: deeper.yaml
"""
DEEPER = """
heat_template_version: 2021-04-16
resources: {}
"""
MAPPING = """
resource_registry:
  My::Thing: parts/deeper.yaml
parameters: {flavor: small, kept: 'yes'}
"""
DEFAULTS = """
parameters: {flavor: large}
parameter_defaults: {zone: nova}
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """Templates and environments that name one another."""
    files = {
        'top.yaml': TOP,
        'boot.sh': '#!/bin/sh\n',
        'parts/nested.yaml': NESTED,
        'parts/deeper.yaml': DEEPER,
        'mapping.yaml': MAPPING,
        'defaults.yaml': DEFAULTS,
        'key': 'a secret\n',
    }
    (tmp_path / 'parts').mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def service(http):
    stack = samples.reservation(
        resource_type='virtual:stack',
        resource_id=STACK_ID,
        name='web',
        hold='now',
        on_end='delete',
    )
    lease = samples.lease(reservations=[stack])
    http.get(LEASE, json={'lease': lease})
    http.post(LEASES, status_code=201, json={'lease': lease})
    http.post(f'{LEASE}/reservations', status_code=201, json={'reservation': stack})


def test_files_of_the_template_are_sent(run, sent, service, folder):
    out = run(
        *CREATE,
        '--stack-template',
        str(folder / 'top.yaml'),
        '--stack-parameter',
        'flavor=m1.tiny',
    )
    (body,) = sent('POST', 'PUT')
    (stack,) = body['reservations']
    files, template = stack.pop('files'), stack.pop('template')
    assert stack == {
        'resource_type': 'virtual:stack',
        'name': 'web',
        'parameters': {'flavor': 'm1.tiny'},
    }
    url = folder.as_uri()
    assert template['resources']['nested']['type'] == f'{url}/parts/nested.yaml'
    properties = template['resources']['server']['properties']
    assert properties['user_data'] == {'get_file': f'{url}/boot.sh'}
    assert files[f'{url}/boot.sh'] == '#!/bin/sh\n'
    nested = json.loads(files[f'{url}/parts/nested.yaml'])
    assert nested['resources']['deeper']['type'] == f'{url}/parts/deeper.yaml'
    assert files.keys() == {
        f'{url}/{name}' for name in ('boot.sh', 'parts/nested.yaml', 'parts/deeper.yaml')
    }
    assert f'virtual:stack resource={STACK_ID} pending, on_end=delete name=web hold=now' in out


def test_environments_are_merged_and_their_files_sent(run, sent, service, folder):
    run(
        *('lease', 'reservation', 'add', LEASE_ID, '--stack-name', 'web', '--on-end', 'suspend'),
        *('--stack-template', str(folder / 'parts' / 'deeper.yaml'), '--stack-hold', 'start'),
        *('--stack-environment', str(folder / 'mapping.yaml')),
        *('--stack-environment', str(folder / 'defaults.yaml')),
    )
    (stack,) = sent('POST', 'PUT')
    url = f'{folder.as_uri()}/parts/deeper.yaml'
    assert stack['environment'] == {
        'resource_registry': {'My::Thing': url},
        'parameters': {'flavor': 'large', 'kept': 'yes'},
        'parameter_defaults': {'zone': 'nova'},
    }
    assert json.loads(stack['files'][url])['resources'] == {}
    assert (stack['hold'], stack['on_end']) == ('start', 'suspend')
    assert 'parameters' not in stack


def test_parameters_from_files_and_bytes(run, http, sent, service, folder):
    (folder / 'boot.sh').write_bytes(b'\xff\xfe')
    http.post(f'{LEASES}?dry_run=true', json={'dry_run': {'granted': True, 'refusals': []}})
    run(
        *(*CREATE, '--dry-run', '--stack-template', str(folder / 'top.yaml')),
        *('--stack-parameter', 'flavor=a;kept=b'),
        *('--stack-parameter-file', 'key=key'),
    )
    (body,) = sent('POST', 'PUT')
    (stack,) = body['reservations']
    assert stack['parameters'] == {'flavor': 'a', 'kept': 'b', 'key': 'a secret\n'}
    assert stack['files'][f'{folder.as_uri()}/boot.sh'] == '//4=\n'


def test_stack_is_added_beside_other_changes(run, http, sent, service, folder):
    http.put(LEASE, json={'lease': samples.lease(name='other')})
    run(
        *('lease', 'set', LEASE_ID, '--name', 'other', '--on-end', 'snapshot'),
        *('--stack-template', str(folder / 'parts' / 'deeper.yaml'), '--stack-name', 'web'),
    )
    changed, stack = sent('POST', 'PUT')
    assert changed == {'name': 'other'}
    assert (stack['name'], stack['on_end']) == ('web', 'snapshot')


@pytest.mark.parametrize(
    ('argv', 'words'),
    [
        (['--stack-template', 'top.yaml'], '--stack-template: the stack needs a name'),
        (['--stack-name', 'web'], '--stack-name: there is no stack to make'),
        (['--stack-environment', 'x'], '--stack-environment: there is no stack to make'),
        (['--stack-parameter', 'a=b'], '--stack-parameter: there is no stack to make'),
        (['--stack-parameter-file', 'a=b'], '--stack-parameter-file: there is no stack to make'),
        (['--stack-hold', 'now'], '--stack-hold: there is no stack to make'),
        (['--stack-hold', 'later'], "invalid choice: 'later'"),
    ],
)
def test_options_that_need_others(fail, sent, service, folder, monkeypatch, argv, words):
    monkeypatch.chdir(folder)
    err = fail('lease', 'create', 'lease1', '--for', '3h', *argv)
    assert words in ' '.join(err.split())
    assert sent('POST', 'PUT') == []


@pytest.mark.parametrize(
    ('file', 'text', 'argv', 'words'),
    [
        ('gone', None, [], 'No such file or directory'),
        ('text.yaml', 'a: [b', [], "expected ',' or ']'"),
        ('text.yaml', 'a: b', [], 'Template format version not found'),
        ('text.yaml', '5', [], 'It is not written as Heat takes it'),
        (
            'text.yaml',
            'heat_template_version: 2021-04-16\nresources: {a: {type: gone.yaml}}',
            [],
            'gone.yaml',
        ),
        ('parts/deeper.yaml', None, ['--stack-environment', 'gone'], '--stack-environment gone: '),
        ('parts/deeper.yaml', None, ['--stack-environment', 'top.yaml'], 'wrong section'),
        ('parts/deeper.yaml', None, ['--stack-environment', 'key'], 'not a valid YAML'),
        (
            'parts/deeper.yaml',
            None,
            ['--stack-environment', 'strategies.yaml'],
            'parameter_merge_strategies cannot be kept',
        ),
        (
            'parts/deeper.yaml',
            None,
            ['--stack-parameter', 'flavor'],
            '--stack-parameter: Malformed parameter(flavor)',
        ),
        (
            'parts/deeper.yaml',
            None,
            ['--stack-parameter-file', 'a=gone'],
            '-parameter-file: Could',
        ),
    ],
)
def test_unreadable_file_is_refused(
    fail, sent, service, folder, monkeypatch, file, text, argv, words
):
    (folder / 'strategies.yaml').write_text('parameter_merge_strategies: {default: merge}')
    monkeypatch.chdir(folder)
    if text:
        (folder / file).write_text(text)
    err = fail(*CREATE, '--stack-template', file, *argv)
    assert words in err
    assert f'--stack-template {file}: ' in err or argv
    assert 'Traceback' not in err
    assert sent('POST', 'PUT') == []


def test_wrong_parameter_hides_other_values(fail, http, service, folder, monkeypatch):
    monkeypatch.chdir(folder)
    err = fail(
        *CREATE,
        *('--stack-template', 'top.yaml', '--stack-parameter', 'password=secret'),
        *('--stack-parameter', 'flavor'),
    )
    assert 'flavor' in err
    assert 'secret' not in err


def test_missing_heatclient_is_named(fail, sent, service, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, 'heatclient.common', None)
    err = fail(*CREATE, '--stack-template', str(folder / 'top.yaml'))
    assert 'python-heatclient reads the files, and cannot be loaded' in err
    assert 'openstack-climate[stacks]' in err
    assert sent('POST', 'PUT') == []


def test_error_names_the_field_of_the_service(fail, http, folder):
    reason = 'The Parameter (flavour) was not provided.'
    body = samples.error(400, reason, 'request.invalid', field='reservations[0].parameters')
    http.post(LEASES, status_code=400, json=body)
    err = fail(*CREATE, '--stack-template', str(folder / 'top.yaml'))
    assert f'reservations[0].parameters: {reason}' in err
