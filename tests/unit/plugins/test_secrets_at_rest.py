# SPDX-License-Identifier: Apache-2.0
"""What users entrust to the database is sealed there, and in plain for all who may see it."""

import dataclasses
import json

import pytest
import sqlalchemy as sa
from cryptography.fernet import Fernet

from climate_core import exceptions
from climate_core.db import engine, listing, outbox, secrets, store, tables
from climate_core.lease import views
from climate_core.plugins import volume
from climate_core.plugins.server import ServerPlugin
from tests.support.created import get_id
from tests.support.fakes import flavors
from tests.unit.plugins.leased import END

URL = 'https://example.org/hooks/t0ken'
SIGNED = 'signing-key-0123456789'
METADATA = {'role': 'metadata-of-a-user'}
SECRET = ('t0ken', SIGNED, 'metadata-of-a-user')
OLD, NEW = (Fernet.generate_key().decode() for _ in range(2))


@pytest.fixture
def made(leased):
    flavors.add(leased.stacks.state, id='small')
    set_keys(leased, [OLD])
    return leased


def set_keys(made, keys):
    for conf in (made.stacks.conf, made.database.info[engine.CONF_KEY]):
        conf.set_override('secret_keys', keys, group=ServerPlugin.resource_type)


def create(made):
    server = {
        'name': 'web',
        'flavorRef': 'small',
        'block_device_mapping_v2': [{'source_type': 'blank', 'boot_index': 0}],
        'metadata': METADATA,
        'adminPass': 'secret',
    }
    request = {
        'name': 'lease1',
        'start_date': '2082-12-01 13:00',
        'end_date': END,
        'webhook': {'url': URL, 'secret': SIGNED},
        'reservations': [{'resource_type': 'virtual:instance', 'server': server}],
    }
    return get_id(made.operations.creator.create_lease(made.stacks.user(), request))


def stored(made, *names):
    """Return all that tables of the database have, as text."""
    with made.database.reader() as session:
        return str(
            [
                [tuple(row) for row in session.execute(sa.text(f'SELECT * FROM {name}'))]
                for name in names
            ]
        )


ALL = ('leases', 'reservations', 'lease_history')


def read_all(made, lease_id):
    """Return what the API shows the owner of a lease: alone, in a list, and its history."""
    lease = made.lease(lease_id)
    listed, _ = made.database.read(listing.read_summaries, listing.LeaseQuery())
    (row,) = [each for each in listed if each.id == lease_id]
    entries = made.database.read(listing.read_history_page, lease_id)[0]
    shown = [views.lease_view(each, viewer_id=lease.user_id) for each in (lease, row)]
    return [*shown, [each.changes for _, each in entries]]


def test_dump_of_the_database_has_no_secret_and_the_api_shows_the_same(made):
    lease_id = create(made)
    text = stored(made, *ALL)
    assert not [each for each in (*SECRET, 'adminPass') if each in text]
    assert not [each for each in SECRET if each in stored(made, 'webhook_deliveries')]
    assert METADATA['role'] not in stored(made, 'notifications')
    sealed = read_all(made, lease_id)
    assert made.lease(lease_id).webhook == {'url': URL, 'secret': SIGNED, 'events': ['*']}
    assert sealed[0]['reservations'][0]['server']['metadata'] == METADATA
    assert sealed[0]['webhook'] == sealed[1]['webhook'] == {'url': URL, 'events': ['*']}
    assert json.dumps(METADATA) in json.dumps(sealed[2])
    busy = outbox.DeliveriesInProgress(4)
    (call,) = made.database.write(outbox.claim_deliveries, 60, 9, busy)
    assert (call.url, call.secret) == (URL, SIGNED)
    made.look_around(5)
    (server,) = made.stacks.state.servers.values()
    assert server['asked']['metadata'] == METADATA
    assert not [each for each in SECRET if each in stored(made, *ALL)]


def test_without_keys_rows_are_plain_and_stay_readable_with_keys(made):
    set_keys(made, [])
    webhook = {'url': URL, 'secret': SIGNED, 'events': ['*']}
    lease = made.lease(create_plain(made))
    assert lease.webhook == webhook
    assert SIGNED in stored(made, 'leases')
    set_keys(made, [NEW])
    assert made.lease(lease.id).webhook == webhook
    assert read_all(made, lease.id)[1]['webhook'] == {'url': URL, 'events': ['*']}


def create_plain(made):
    request = {
        'name': 'lease2',
        'start_date': '2082-12-01 13:00',
        'end_date': END,
        'webhook': {'url': URL, 'secret': SIGNED},
        'reservations': [
            {
                'resource_type': 'virtual:instance',
                'server': {
                    'name': 'web',
                    'flavorRef': 'small',
                    'block_device_mapping_v2': [{'source_type': 'blank', 'boot_index': 0}],
                    'metadata': METADATA,
                },
            }
        ],
    }
    return get_id(made.operations.creator.create_lease(made.stacks.user(), request))


def test_missing_key_hides_secrets_and_loses_nothing(made, caplog):
    lease_id = create(made)
    before = read_all(made, lease_id)
    set_keys(made, [NEW])
    lease = made.lease(lease_id)
    assert (lease.webhook['url'], lease.webhook['events']) == ('', ['*'])
    assert views.lease_view(lease, viewer_id='another')['webhook']['url'] == ''
    assert 'secret_keys of climate.conf does not open' in caplog.text
    (call,) = made.database.write(outbox.claim_deliveries, 60, 9, outbox.DeliveriesInProgress(4))
    assert call.url == ''
    # What is written meanwhile keeps what no key opens.
    made.operations.update_lease(made.stacks.user(), lease_id, {'name': 'lease3'})
    (reservation,) = lease.reservations
    changed = dataclasses.replace(reservation, params={**reservation.params, 'x': 1})
    made.database.write(
        lambda session: store.update_reservations(session, [(reservation, changed)])
    )
    read_all(made, lease_id)
    set_keys(made, [NEW, OLD])
    after = read_all(made, lease_id)
    assert after[0]['webhook'] == before[0]['webhook']
    assert after[0]['reservations'][0]['server'] == before[0]['reservations'][0]['server']
    assert made.lease(lease_id).webhook['secret'] == SIGNED


def test_server_is_not_created_without_metadata_that_no_key_opens(made):
    set_keys(made, [OLD])
    lease_id = create_plain(made)
    set_keys(made, [NEW])
    made.look_around(5)
    assert not made.stacks.state.servers
    assert 'has no key that opens its metadata' in str(made.lease(lease_id).events)
    set_keys(made, [NEW, OLD])
    made.look_around(5)
    (server,) = made.stacks.state.servers.values()
    assert server['asked']['metadata'] == METADATA


def test_volume_is_not_created_without_metadata_that_no_key_opens(made):
    item = {'name': 'disk', 'size': 1, 'metadata': METADATA}
    request = {
        'name': 'lease1',
        'start_date': '2082-12-01 13:00',
        'end_date': END,
        'reservations': [{'resource_type': 'virtual:volume', 'volume': item}],
    }
    lease_id = get_id(made.operations.creator.create_lease(made.stacks.user(), request))
    set_keys(made, [NEW])
    lease = made.lease(lease_id)
    with pytest.raises(exceptions.Transient, match='no key that opens its metadata'):
        volume.build_request(lease, lease.reservations[0])
    set_keys(made, [NEW, OLD])
    lease = made.lease(lease_id)
    found = volume.build_request(lease, lease.reservations[0])
    assert METADATA.items() <= found['metadata'].items()


def test_secrets_of_another_lease_do_not_open(made):
    mine, theirs = create(made), create(made)

    def copy(session):
        row = tables.LEASES.c
        query = sa.select(sa.type_coerce(row.webhook, sa.Text)).where(row.id == theirs)
        stolen = session.execute(query).scalar_one()
        session.execute(
            sa.text('UPDATE leases SET webhook = :stolen WHERE id = :mine'),
            {'stolen': stolen, 'mine': mine},
        )

    made.database.write(copy)
    assert made.lease(mine).webhook['url'] == ''
    assert made.lease(theirs).webhook['url'] == URL


def test_equal_changes_of_two_leases_are_sealed_for_each(made):
    held = [made.lease(create_plain(made)).reservations[0] for _ in range(2)]
    params = {**held[0].params, 'on_end': 'stop'}
    pairs = [(each, dataclasses.replace(each, params=params)) for each in held]
    assert len(made.statements(lambda: made.database.write(store.update_reservations, pairs))) == 2
    assert [made.lease(each.lease_id).reservations[0] for each in held] == [b for _, b in pairs]


def needs(made, keys):
    return {each for _, each in secrets.check_keys(made.database, keys)}


def test_rotation_reads_all_at_every_step(made):
    lease_id = create(made)
    before = read_all(made, lease_id)
    # Managers restart one by one: some have the new key as a second one, some do not.
    for keys in ([OLD, NEW], [OLD], [NEW, OLD]):
        set_keys(made, keys)
        assert read_all(made, lease_id)[0]['webhook'] == before[0]['webhook']
    later = create(made)
    assert needs(made, [NEW, OLD]) == {1, 2}
    assert 0 in needs(made, [NEW])
    rotation = secrets.rotate_keys(made.database, [NEW, OLD])
    # It is interrupted, and repeated.
    assert next(rotation)
    rotation.close()
    assert needs(made, [NEW, OLD]) == {1, 2}
    done = list(secrets.rotate_keys(made.database, [NEW, OLD]))
    assert done
    assert all(done)
    assert list(secrets.rotate_keys(made.database, [NEW, OLD])) == []
    assert needs(made, [NEW]) == {1}
    set_keys(made, [NEW])
    assert json.dumps(read_all(made, lease_id)) == json.dumps(before)
    assert made.lease(later).webhook['secret'] == SIGNED
    made.look_around(5)
    servers = made.stacks.state.servers.values()
    assert [each['asked']['adminPass'] for each in servers] == ['secret', 'secret']


def test_rotation_seals_what_is_in_plain_text(made):
    set_keys(made, [])
    lease_id = create_plain(made)
    before = read_all(made, lease_id)
    assert needs(made, [NEW]) == {None}
    assert all(secrets.rotate_keys(made.database, [NEW]))
    assert not [each for each in SECRET if each in stored(made, *ALL)]
    set_keys(made, [NEW])
    assert json.dumps(read_all(made, lease_id)) == json.dumps(before)


def test_history_has_the_origin_of_a_webhook_unsealed(made):
    create(made)
    column = tables.HISTORY.c.changes
    (text,) = made.database.read(lambda session: session.scalars(sa.select(column)).all())
    assert text['webhook'] == [None, 'https://example.org']
    found = [each for each in secrets.check_keys(made.database, [OLD]) if each[0] == 'history']
    assert [each for _, each in found] == [1]


def test_rotation_leaves_what_no_key_opens_and_what_changes(made, monkeypatch):
    lease_id = create(made)
    text = stored(made, *ALL)
    assert not any(secrets.rotate_keys(made.database, [NEW]))
    assert stored(made, *ALL) == text
    read = secrets._read_texts

    def change(database):
        for row in read(database):
            made.database.write(
                lambda session: session.execute(
                    sa.text('UPDATE leases SET webhook = NULL WHERE id = :id'), {'id': lease_id}
                )
            )
            yield row

    monkeypatch.setattr(secrets, '_read_texts', change)
    assert next(secrets.rotate_keys(made.database, [NEW, OLD])) is False
    assert made.lease(lease_id).webhook is None
