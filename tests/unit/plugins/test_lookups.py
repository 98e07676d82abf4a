# SPDX-License-Identifier: Apache-2.0
"""How many requests to other services one request of a user causes."""

import collections
from operator import attrgetter

import pytest

from climate_core import exceptions
from tests.support.fakes import flavors, neutron
from tests.unit.plugins.leased import END

START = '2082-12-01 13:00'


@pytest.fixture
def made(leased):
    """Return an engine in front of a cloud with many flavors."""
    for number in range(30):
        flavors.add(leased.stacks.state, id=f'flavor{number}')
    return leased


def item(number, flavor):
    server = {
        'name': f'web{number}',
        'flavorRef': flavor,
        'block_device_mapping_v2': [{'source_type': 'blank', 'boot_index': 0}],
    }
    return {'resource_type': 'virtual:instance', 'server': server}


def request(items):
    return {'name': 'lease1', 'start_date': START, 'end_date': END, 'reservations': items}


def sent(made, function, *args):
    """Return how often each flavor was asked for."""
    requests = made.stacks.state.requests
    before = len(requests)
    function(made.stacks.user(), *args)
    paths = [path for method, path, _ in requests[before:] if method == 'GET']
    return collections.Counter(path for path in paths if '/flavors/' in path)


@pytest.mark.parametrize('way', ['creator.create_lease', 'check_lease'])
def test_equal_lookups_of_a_request_are_sent_once(made, way):
    wanted = [item(number, f'flavor{number % 2}') for number in range(20)]
    found = sent(made, attrgetter(way)(made.operations), request(wanted))
    assert len(found) == 2
    # Once with the rights of the user, and perhaps once with those of the service.
    assert max(found.values()) <= 2


@pytest.mark.parametrize('way', ['creator.create_lease', 'check_lease'])
def test_zone_and_networks_are_asked_for_once_and_only_if_they_are_named(made, way):
    """Each of Nova, Neutron and Cinder is asked with the rights of the user."""
    named = {'availability_zone': 'nova', 'networks': 'auto'}
    port = {'networks': [{'port': neutron.PORT}]}
    volume = {'name': 'data', 'size': 1, 'availability_zone': 'nova'}
    counts = []
    for more, count in (({}, 20), (named, 20), (port, 1)):
        items = [item(number, 'flavor1') for number in range(count)]
        for each in items:
            each['server'].update(more)
        if more:
            items += [{'resource_type': 'virtual:volume', 'volume': volume}] * (more is named)
        requests = made.stacks.state.requests
        before = len(requests)
        attrgetter(way)(made.operations)(made.stacks.user(), request(items))
        asked = [path for _, path, _ in requests[before:]]
        watched = ('os-availability-zone', '/networks', '/ports')
        counts.append({each: sum(each in path for path in asked) for each in watched})
    assert counts == [
        dict(zip(watched, expected, strict=True)) for expected in ((0, 0, 0), (2, 2, 0), (0, 1, 1))
    ]


def test_next_request_looks_again(made):
    for number in range(2):
        found = sent(made, made.operations.check_lease, request([item(number, 'flavor1')]))
        assert sum(found.values()) >= 1


def test_distinct_lookups_of_a_request_are_bounded(made):
    made.operations.services.conf.set_override('lookups_per_request', 5, group='limits')
    wanted = request([item(number, f'flavor{number}') for number in range(30)])
    requests = made.stacks.state.requests
    before = len(requests)
    with pytest.raises(exceptions.BadRequest) as caught:
        made.operations.creator.create_lease(made.stacks.user(), wanted)
    assert caught.value.field == 'reservations'
    assert 'more than 5 requests to other services' in caught.value.message
    assert len([path for _, path, _ in requests[before:] if '/flavors/' in path]) <= 5
    told = made.operations.check_lease(made.stacks.user(), wanted)
    assert [each['field'] for each in told['refusals']] == ['reservations']
    assert not made.stacks.state.servers
