# SPDX-License-Identifier: Apache-2.0
"""Reservations of a stack of a template, and how the placeholder is made and discarded."""

import json

import pytest

from climate_core import exceptions
from climate_core.cloud import stacks as calls
from climate_core.plugins import stack_templates
from tests.conformance.world import reservation_of
from tests.support.fakes import heat
from tests.unit.plugins.templated import TEMPLATE, wanted

LEASE = '6b0a3c2e-6c5e-4c2c-9c8b-3f1d6f6b7a11'
OTHER = '6b0a3c2e-6c5e-4c2c-9c8b-3f1d6f6b7a12'
UUID = '0ea3e7b5-0000-4000-8000-000000000000'
DEEP = json.loads('[' * 150 + ']' * 150)


def reserve(stacks, **values):
    return stacks.plugin().reserve(stacks.user(), wanted(**values))


def make(stacks, lease_id=LEASE, **values):
    plugin, user = stacks.plugin(), stacks.user()
    given = wanted(**values)
    return plugin.make(user, lease_id, given, plugin.reserve(user, given, lease_id))


def refused(stacks, error=exceptions.BadRequest, **values):
    """Return the field and the message of a refusal that leaves nothing behind."""
    before = set(stacks.state.stacks)
    with pytest.raises(error) as caught:
        reserve(stacks, **values)
    assert set(stacks.state.stacks) == before
    return caught.value.field, caught.value.message


def without(*fields):
    return {k: v for k, v in wanted().items() if k not in fields}


@pytest.mark.parametrize(
    ('values', 'field'),
    [
        ({'resource_type': 'virtual:stack'}, 'resource_id'),
        (wanted(resource_id=UUID), 'template'),
        (without('name'), 'name'),
        *(
            ({'resource_id': UUID, field: value}, field)
            for field, value in [
                ('name', 'web'),
                ('parameters', {}),
                ('environment', {}),
                ('files', {}),
                ('hold', 'now'),
            ]
        ),
        ({'parameters': {}}, 'parameters'),
    ],
)
def test_one_or_the_other(stacks, values, field):
    with stacks.counted() as sent, pytest.raises(exceptions.BadRequest) as caught:
        stacks.plugin().reserve(stacks.user(), values)
    assert caught.value.field == field
    assert sent == []


def test_the_check_makes_nothing(stacks):
    with stacks.counted() as sent:
        claimed = reserve(stacks, hold='start', on_end='nothing')
    kept = {k: v for k, v in claimed.params.items() if k != '_said'}
    inside = kept.pop('_parts')
    assert kept == {'name': 'web', 'hold': 'start', 'on_end': 'nothing'}
    assert inside == {
        'virtual:instance': [{'unknown': 'flavor of server'}],
        'virtual:volume': [{'unknown': 'size of disk'}],
    }
    assert claimed.amounts == {'stacks': 1}
    assert not claimed.is_created
    assert not stacks.state.stacks
    asked = [line for line in sent if '/heat/' in line]
    assert [line.split('/')[-1] for line in asked] == ['preview']


@pytest.mark.parametrize(
    ('values', 'field', 'told'),
    [
        ({'template': 'a: ['}, 'template', 'must be YAML or JSON'),
        ({'template': '[' * 5000}, 'template', 'must be YAML or JSON'),
        ({'template': '[]'}, 'template', 'a mapping'),
        ({'template': ''}, 'template', 'a mapping'),
        ({'template': {}}, 'template', 'version was not provided'),
        ({'template': {**TEMPLATE, 'resources': {'a': {'type': 'x'}}}}, 'template', 'Resource Ty'),
        ({'parameters': {}}, 'template', 'flavor'),
        ({'parameters': {'flavor': DEEP, 'key': 'k'}}, 'parameters', 'levels deep'),
        ({'parameters': {'no': 'x'}}, 'template', 'not defined'),
        ({'environment': 'a: ['}, 'environment', 'must be YAML or JSON'),
        ({'environment': '- 1'}, 'environment', 'a mapping'),
        *(
            ({'environment': each}, 'environment', 'parameter_merge_strategies is not supported')
            for each in (
                'parameter_merge_strategies: {flavor: merge}',
                {'parameter_merge_strategies': {'default': 'merge'}},
            )
        ),
        (
            {'environment': {'parameter_defaults': {'climate_lease_id': UUID}}},
            'environment',
            'must not have',
        ),
        (
            {'environment': f'parameter_defaults: {{climate_lease_id: {UUID}}}'},
            'environment',
            'must not have',
        ),
        ({'files': {'climate:template': 'x'}}, 'files', 'climate:template'),
        ({'files': {'large': 'x' * 1024 * 1024}}, 'template', 'at most 1048576'),
        ({'template': 'parameters: {a: !!binary aGFsbG8=}'}, 'template', 'cannot be sent'),
        ({'template': 'parameters: {flavor: {default: .nan}}'}, 'template', 'not JSON compliant'),
        ({'parameters': {'flavor': float('nan')}}, 'template', 'not JSON compliant'),
        ({'template': 'parameters: &a {b: *a}'}, 'template', 'part of itself'),
    ],
)
def test_template_that_cannot_be_used_is_refused(stacks, values, field, told):
    named, message = refused(stacks, **values)
    assert named == field
    assert told in message


def test_few_aliases_of_much_text(stacks):
    """They are not written out: that would take all the memory there is."""
    lines = ['parameters:', '  a0: &a0 [x, x]']
    lines += [f'  a{n}: &a{n} [*a{n - 1}, *a{n - 1}]' for n in range(1, 60)]
    assert 'at most' in refused(stacks, template='\n'.join(lines))[1]


@pytest.mark.parametrize('environment', ['', 'parameters:\n', {}, 'parameter_defaults:\n'])
def test_environments_that_say_nothing(stacks, environment):
    assert reserve(stacks, environment=environment)


FLOW_STYLE = '{heat_template_version: 2021-04-16, parameters: {}}'
PARAMETERS = {'a': {'Type': 'String'}}


@pytest.mark.parametrize(
    ('template', 'placeholder'),
    [
        (FLOW_STYLE, {'heat_template_version': '2021-04-16', 'parameters': {}}),
        *(
            ({**made, 'Resources': {}}, made)
            for version in ('AWSTemplateFormatVersion', 'HeatTemplateFormatVersion')
            for made in [{version: '2010-09-09', 'Parameters': PARAMETERS}]
        ),
    ],
)
def test_placeholder_has_the_template_without_its_resources(template, placeholder):
    assert stack_templates.placeholder(wanted(template=template)) == placeholder


def test_name_that_is_taken_in_the_project_is_refused(stacks):
    heat.add(stacks.state, stack_name='web', project_id='other-id')
    assert reserve(stacks)
    heat.add(stacks.state, stack_name='web')
    field, message = refused(stacks, exceptions.NameTaken)
    assert field == 'name'
    assert 'web' in message


@pytest.mark.parametrize(
    ('status', 'error', 'field'),
    [
        (500, exceptions.ServiceUnavailable, None),
        (503, exceptions.ServiceUnavailable, None),
        (403, exceptions.Forbidden, 'template'),
        # A proxy finds it too large.
        (413, exceptions.BadRequest, 'template'),
    ],
)
def test_refusal_of_the_preview_is_told_with_its_field(stacks, status, error, field):
    stacks.fault('POST', '/preview', status)
    assert refused(stacks, error)[0] == field


@pytest.mark.parametrize(('hold', 'prepare'), [(None, True), ('now', True), ('start', False)])
def test_making_it_again_finds_it(stacks, hold, prepare):
    values = {'hold': hold} if hold else {}
    first = make(stacks, **values)
    assert (first.is_created, first.prepare) == (True, prepare)
    again = make(stacks, **values)
    assert again.resource_id == first.resource_id
    assert (again.is_created, again.prepare) == (False, prepare)
    assert len(stacks.state.stacks) == 1


@pytest.mark.parametrize(
    ('lease_id', 'values'),
    [
        (OTHER, {}),
        (LEASE, {'parameters': {'flavor': 'large', 'key': 'k'}}),
        (LEASE, {'template': {**TEMPLATE, 'resources': {}}}),
        (LEASE, {'files': {'a': 'b'}}),
        (LEASE, {'hold': 'start'}),
    ],
)
def test_the_placeholder_of_another_request(stacks, lease_id, values):
    """A lease with another id, or another stack for the same."""
    plugin, user = stacks.plugin(), stacks.user()
    claimed = plugin.reserve(user, wanted(**values), lease_id)
    make(stacks)
    for ask in (
        lambda: plugin.make(user, lease_id, wanted(**values), claimed),
        lambda: plugin.reserve(user, wanted(**values), lease_id),
    ):
        with pytest.raises(exceptions.NameTaken) as caught:
            ask()
        assert caught.value.field == 'name'


HIDDEN = {'type': 'string', 'hidden': True}
OF_AWS = {'AWSTemplateFormatVersion': '2010-09-09'}


@pytest.mark.parametrize(
    'template',
    [
        {**TEMPLATE, 'parameters': {'a': HIDDEN, 'b': {**HIDDEN, 'hidden': 'true'}}},
        {**OF_AWS, 'Parameters': {key: {'Type': 'String', 'NoEcho': 'true'} for key in 'ab'}},
    ],
)
def test_hidden_parameters_cannot_be_guessed(template):
    """Everybody in the project sees the tags of a stack."""
    tags = [
        stack_templates._tags(LEASE, given, stack_templates.placeholder(given))
        for given in (
            wanted(template=template, parameters=parameters, environment=environment)
            for parameters in ({'a': '1', 'b': '2'}, {'a': 'x', 'b': 'y'})
            for environment in ({}, {'parameter_defaults': {'a': 'z'}}, 'parameters: {a: z}')
        )
    ]
    assert all(each == tags[0] for each in tags)


def test_a_placeholder_that_is_being_deleted(stacks):
    made = make(stacks)
    stacks.plugin().discard(made.resource_id)
    with pytest.raises(exceptions.NameTaken):
        make(stacks)


def test_the_template_is_kept_as_it_was_given(stacks):
    text = '# ours\n' + json.dumps(TEMPLATE)
    make(stacks, template=text)
    (stack,) = stacks.state.stacks.values()
    assert stack['files']['climate:template'] == text


def test_placeholders_without_a_lease(stacks):
    made = make(stacks)
    heat.add(stacks.state, tags=['climate-filled'])
    plugin = stacks.plugin()
    assert list(plugin.list_unleased()) == [made.resource_id]
    assert plugin.unleased_since(made.resource_id).isoformat() == '2082-12-01T00:00:00+00:00'
    plugin.discard(made.resource_id)
    assert stacks.state.stacks[made.resource_id]['status'] == 'DELETE_IN_PROGRESS'


def test_what_was_filled_meanwhile_is_not_discarded(stacks):
    made = make(stacks)
    stacks.state.stacks[made.resource_id]['tags'] = ['climate-filled']
    plugin = stacks.plugin()
    assert list(plugin.list_unleased()) == []
    assert plugin.unleased_since(made.resource_id) is None
    with pytest.raises(exceptions.Permanent, match='filled'):
        plugin.discard(made.resource_id)
    assert stacks.state.stacks[made.resource_id]['status'] == 'CREATE_COMPLETE'


def test_discard_of_a_stack_that_is_gone_does_nothing(stacks):
    plugin = stacks.plugin()
    plugin.discard(UUID)
    assert plugin.unleased_since(UUID) is None


def test_the_template_was_taken_out(stacks):
    made = make(stacks)
    stacks.state.stacks[made.resource_id]['files'] = {}
    conn = stacks.cloud.user(stacks.user())
    reservation = reservation_of(made, 'virtual:stack')
    with pytest.raises(exceptions.Permanent, match='lacks its file'):
        stack_templates.fill(conn, calls.get(conn, made.resource_id), reservation)


@pytest.mark.parametrize(
    ('environment', 'previewed'),
    [
        (None, {'parameter_defaults': {'climate_lease_id': 'lease'}}),
        (
            'parameter_defaults: {a: 1}\nparameters: {b: 2}',
            {'parameter_defaults': {'a': 1, 'climate_lease_id': 'lease'}, 'parameters': {'b': 2}},
        ),
        # What only YAML can say is left as it is.
        ('parameters: {key: !!binary aGk=}', 'parameters: {key: !!binary aGk=}'),
    ],
)
def test_what_is_held_is_previewed_with_its_lease(environment, previewed):
    values = {'name': 'web', 'template': {}}
    if environment is not None:
        values['environment'] = environment
    assert stack_templates._previewed('lease', values)['environment'] == previewed
    for lease_id, hold in (('', 'now'), ('lease', 'start')):
        body = stack_templates._previewed(lease_id, {**values, 'hold': hold})
        assert body.get('environment') == environment


def test_environment_that_is_no_json_is_not_sent_with_its_lease():
    values = {'name': 'web', 'template': {}, 'environment': 'parameters: {a: .inf}'}
    with pytest.raises(exceptions.BadRequest, match='not JSON compliant') as caught:
        stack_templates._previewed('lease', values)
    assert caught.value.field == 'environment'


@pytest.mark.parametrize(
    ('properties', 'read'),
    [
        ({'flavor': 'm1', 'image': 'i'}, {'flavorRef': 'm1'}),
        (
            {'flavor': 'm1', 'block_device_mapping': [{}], 'availability_zone': 'z'},
            {'flavorRef': 'm1', 'block_device_mapping_v2': [], 'availability_zone': 'z'},
        ),
        ({'flavor': 'm1', 'image': 'i', 'block_device_mapping_v2': [{}]}, {'flavorRef': 'm1'}),
    ],
)
def test_servers_of_a_preview_are_read_in_the_words_of_nova(properties, read):
    server = {'resource_type': 'OS::Nova::Server', 'resource_name': 'a', 'properties': properties}
    disk = {'size': '5', 'volume_type': 'ssd'}
    volume = {'resource_type': 'OS::Cinder::Volume', 'properties': disk}
    other = {'resource_type': 'OS::Heat::Value', 'properties': None}
    assert stack_templates.list_previewed_parts([other, [[server], volume]]) == {
        'virtual:instance': [{'server': read}],
        'virtual:volume': [{'volume': {'size': 5, 'volume_type': 'ssd'}}],
    }
