# SPDX-License-Identifier: Apache-2.0
"""Ids and amounts that a service reports are verified afterwards."""

import dataclasses
import itertools
import uuid

import pytest
from oslo_utils import uuidutils

from climate_core.conf import cloud as conf
from climate_core.lease.model import REPORTED
from climate_core.repair import reconciliation
from tests.support.created import get_id
from tests.support.fakes import cinder, nova
from tests.support.fakes.fixtures import fake, stacks
from tests.unit.plugins.leased import END, Leased

__all__ = ['fake', 'stacks']

OF_SERVER = {'servers': 1, 'vcpus': 1, 'memory_mb': 512, 'disk_gb': 1}
DATES = {'start_date': '2082-12-01 13:00', 'end_date': END}
LEASE = '11111111-2222-4333-8444-555555555555'


@pytest.fixture
def leased(stacks):
    made = Leased(stacks)
    stacks.conf.register_opts(conf.RECONCILE_OPTS, group=conf.RECONCILE_GROUP)
    yield made
    made.database.dispose()


def report(leased, kind, resource_id, amounts):
    """Have a service reserve a resource for a new lease, beside a server that is in order."""
    own = nova.add(leased.stacks.state, hints={'reserved': ['True'], 'lease_id': [LEASE]})
    items = [
        {'resource_type': 'virtual:instance', 'resource_id': own['id'], 'amounts': OF_SERVER},
        {'resource_type': kind, 'resource_id': resource_id, 'amounts': amounts},
    ]
    context = leased.stacks.context('alice', ['service'])
    body = {'id': LEASE, 'name': 'lease', **DATES, 'reservations': items}
    assert get_id(leased.operations.creator.create_lease(context, body)) == LEASE


def compare(leased):
    """Compare once, as a manager does."""
    args = leased.stacks.conf, leased.database, leased.plugins, leased.trusts
    reconciliation.Reconciler(*args).compare()


def reservation(leased, resource_id):
    """Compare once; return the reservation of a resource."""
    compare(leased)
    found = leased.lease(LEASE).reservations
    other = next(each for each in found if each.resource_id != resource_id)
    # What is in order stays, and is not read again.
    assert (other.status, other.amounts, REPORTED in other.params) == ('pending', OF_SERVER, False)
    return next(each for each in found if each.resource_id == resource_id)


@pytest.mark.parametrize(
    ('server', 'reason'),
    [
        ({'project_id': 'other-id'}, 'belongs to another project'),
        ({'hints': {}}, 'was not created for this lease'),
        (
            {'hints': {'reserved': ['True'], 'lease_id': ['another']}},
            'was not created for this lease',
        ),
        (
            {'hints': {'reserved': ['True'], 'lease_params': ['{"id": "another"}']}},
            'was not created for this lease',
        ),
    ],
)
def test_server_that_is_not_of_the_lease_is_removed_from_it(leased, server, reason, caplog):
    given = {'hints': {'reserved': ['True'], 'lease_id': [LEASE]}, **server}
    foreign = nova.add(leased.stacks.state, **given)['id']
    report(leased, 'virtual:instance', foreign, OF_SERVER)
    found = reservation(leased, foreign)
    assert (found.status, found.missing_resources) == ('deleted', True)
    assert reason in found.status_reason
    assert f'Lease {LEASE}: The server {foreign} {reason}' in caplog.text
    leased.operations.delete_lease(leased.stacks.user(), LEASE)
    leased.look_around(5)
    assert leased.stacks.effects(foreign) == ['server create']


def test_wrong_amounts_are_corrected(leased, caplog):
    params = f'{{"id": "{LEASE}", "name": "lease"}}'
    hints = {'reserved': ['True'], 'lease_params': [params]}
    server_id = nova.add(leased.stacks.state, hints=hints)['id']
    report(leased, 'virtual:instance', server_id, dict.fromkeys(OF_SERVER, 0))
    found = reservation(leased, server_id)
    assert (found.status, found.amounts) == ('pending', OF_SERVER)
    assert 'It was corrected.' in caplog.text
    assert REPORTED not in found.params


def test_volume_of_another_project_is_removed_and_amounts_are_corrected(leased):
    state = leased.stacks.state
    foreign, own = cinder.add(state, project_id='other-id')['id'], cinder.add(state)
    report(leased, 'virtual:volume', foreign, {'volumes': 1, 'gigabytes': 1})
    assert reservation(leased, foreign).status == 'deleted'
    values = {'resource_type': 'virtual:volume', 'resource_id': own['id']}
    reported = {**values, 'amounts': {'volumes': 1, 'gigabytes': own['size'] + 1}}
    leased.operations.creator.add_reservation(
        leased.stacks.context('alice', ['service']), LEASE, reported
    )
    compare(leased)
    held = leased.lease(LEASE).live
    (volume,) = (each for each in held if each.resource_id == own['id'])
    assert volume.amounts == {'volumes': 1, 'gigabytes': own['size']}


def test_what_is_verified_is_not_read_again(leased):
    server_id = nova.add(leased.stacks.state, hints={'reserved': ['True'], 'lease_id': [LEASE]})[
        'id'
    ]
    report(leased, 'virtual:instance', server_id, OF_SERVER)
    compare(leased)
    before = leased.lease(LEASE)
    leased.stacks.state.requests.clear()
    compare(leased)
    asked = [path for method, path, _ in leased.stacks.state.requests if server_id in path]
    # One request tells that it still exists.
    assert len(asked) == 1
    assert leased.lease(LEASE) == before


def reserve_each(leased, count, lease_of):
    """Have Nova reserve servers one after the other; return the ids of the leases."""
    context = leased.stacks.context('alice', ['service'])
    for number in range(count):
        lease_id = lease_of(number)
        hints = {'reserved': ['True'], 'lease_id': [lease_id]}
        server_id = nova.add(leased.stacks.state, hints=hints)['id']
        item = {
            'resource_type': 'virtual:instance',
            'resource_id': server_id,
            'amounts': OF_SERVER,
        }
        body = {'id': lease_id, 'name': lease_id, **DATES, 'reservations': [item]}
        leased.operations.creator.create_lease(context, body)
    return {lease_of(number) for number in range(count)}


@pytest.mark.parametrize('count', [2, 20])
@pytest.mark.parametrize('lease_of', [lambda number: f'lease-{number}', lambda _: LEASE])
def test_statements_do_not_grow_with_reported_servers(leased, count, lease_of):
    """Two read a page and its leases, three lock, read and settle; one finds no other page."""
    ids = reserve_each(leased, count, lease_of)
    servers = leased.plugins['virtual:instance']
    found = leased.statements(
        lambda: list(reconciliation.verify_reported(leased.database, servers))
    )
    assert len(found) == 7
    live = [each for lease_id in ids for each in leased.lease(lease_id).live]
    assert len(live) == count
    assert all(REPORTED not in each.params for each in live)


def test_settled_server_is_one_of_the_reservation_that_was_read(leased):
    """Another report of the same server, after the check has begun, is checked in its turn."""
    (lease_id,) = reserve_each(leased, 1, lambda _: LEASE)
    (held,) = leased.lease(lease_id).live
    earlier = dataclasses.replace(held, amounts={**OF_SERVER, 'vcpus': 7})
    assert reconciliation.settle_reported(leased.database, [(earlier, earlier.amounts)]) == []
    assert leased.lease(lease_id).live == (held,)
    assert reconciliation.settle_reported(leased.database, [(held, held.amounts)]) == []
    (after,) = leased.lease(lease_id).live
    assert REPORTED not in after.params


def test_server_of_which_nova_fails_does_not_hide_the_next_one(leased, monkeypatch):
    foreign = nova.add(leased.stacks.state, project_id='other-id')['id']
    # Reservations are verified in the order of their ids.
    ids = (str(uuid.UUID(int=number)) for number in itertools.count(1))
    with monkeypatch.context() as patched:
        patched.setattr(uuidutils, 'generate_uuid', lambda: next(ids))
        report(leased, 'virtual:instance', foreign, OF_SERVER)
    failing, after = sorted(leased.lease(LEASE).live, key=lambda reservation: reservation.id)
    assert after.resource_id == foreign
    leased.stacks.fault('GET', f'/servers/{failing.resource_id}', 500)
    (told,) = reconciliation.verify_reported(leased.database, leased.plugins['virtual:instance'])
    assert foreign in told
    (left,) = leased.lease(LEASE).live
    assert left == failing
    assert REPORTED in left.params


@pytest.mark.parametrize('status', [400, 503])
def test_outage_of_nova_or_a_cell_removes_nothing(leased, status):
    """Of a server in a cell that does not answer Nova shows no hints and no flavor."""
    server_id = nova.add(leased.stacks.state, hints={}, status='UNKNOWN')['id']
    report(leased, 'virtual:instance', server_id, {**OF_SERVER, 'vcpus': 7})
    (before,) = (r for r in leased.lease(LEASE).live if r.resource_id == server_id)
    leased.stacks.fault('GET', f'/servers/{server_id}', status, count=2)
    for _ in range(2):
        compare(leased)
        assert before in leased.lease(LEASE).live
