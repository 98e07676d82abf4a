# SPDX-License-Identifier: Apache-2.0
"""What blazar-dashboard 16.0.0 asks for and reads of leases.

These are the calls of its api/client.py with what its content/leases (forms.py, tables.py,
tabs.py and the templates) gives them, and the fields that are shown. Its panels of hosts are not
about leases.
"""

import datetime
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from blazarclient import client as blazar
from blazarclient import exception
from keystoneauth1 import noauth, session

from tests.functional.api.listening import listening

START, END = '2099-01-01 10:00', '2099-01-01 12:00'
#: Fields of the model, and those that the templates take beside.
LEASE = (
    *('id', 'name', 'start_date', 'end_date', 'user_id', 'project_id', 'before_end_date'),
    *('status', 'degraded', 'events', 'reservations'),
)
RESERVATION = ('id', 'status', 'resource_type', 'missing_resources', 'resources_changed')
EVENT = ('event_type', 'status', 'time')


@pytest.fixture
def leases(application: Any) -> Iterator[Any]:
    with listening(application) as url:
        auth = noauth.NoAuth(endpoint=url)
        yield blazar.Client(session=session.Session(auth=auth)).lease


@pytest.fixture
def lease(leases: Any) -> dict[str, Any]:
    """Return a lease that something else has made: the form knows only Blazar's own types."""
    thing = {'resource_type': 'test:thing', 'resource_id': str(uuid.uuid4())}
    made: dict[str, Any] = leases.create('one', START, END, [thing], [])
    return made


def time(text: str) -> datetime.datetime:
    """Read a time as the table of leases does to tell whether one can be updated."""
    return datetime.datetime.strptime(text, '%Y-%m-%dT%H:%M:%S.%f')


def test_the_table_and_the_details(leases: Any, lease: dict[str, Any]) -> None:
    for shown in (*leases.list(), leases.get(lease['id'])):
        assert set(LEASE) <= shown.keys()
        assert time(shown['start_date']) < time(shown['end_date'])
        assert isinstance(shown['degraded'], bool)
        assert all(set(RESERVATION) <= each.keys() for each in shown['reservations'])
        assert all(set(EVENT) <= each.keys() for each in shown['events'])
        assert all(time(each['time']) for each in shown['events'])
        assert all(isinstance(each['status'], str) for each in shown['events'])


@pytest.mark.parametrize(
    ('fields', 'changed'),
    [
        ({'name': 'two'}, {'name': 'two'}),
        ({'defer_by': '1h'}, {'start_date': '2099-01-01T11:00:00.000000'}),
        ({'advance_by': '1h'}, {'start_date': '2099-01-01T09:00:00.000000'}),
        ({'prolong_for': '1d'}, {'end_date': '2099-01-02T12:00:00.000000'}),
        ({'reduce_by': '30m'}, {'end_date': '2099-01-01T11:30:00.000000'}),
    ],
)
def test_the_form_of_an_update(
    leases: Any, lease: dict[str, Any], fields: dict[str, str], changed: dict[str, str]
) -> None:
    assert leases.update(lease['id'], **fields).items() >= changed.items()


def test_the_form_of_an_update_with_reservations(leases: Any, lease: dict[str, Any]) -> None:
    change = [{'id': lease['reservations'][0]['id'], 'max': 3}]
    with pytest.raises(exception.BlazarClientException, match='max'):
        leases.update(lease['id'], reservations=change)


@pytest.mark.parametrize(
    'reservation',
    [
        {
            'resource_type': 'physical:host',
            'min': 1,
            'max': 1,
            'hypervisor_properties': '',
            'resource_properties': '',
        },
        {
            'resource_type': 'virtual:instance',
            'amount': 1,
            'vcpus': 1,
            'memory_mb': 1,
            'disk_gb': 0,
            'affinity': '',
            'resource_properties': '',
        },
    ],
)
def test_the_form_of_a_create_knows_other_resources(
    leases: Any, reservation: dict[str, Any]
) -> None:
    with pytest.raises(exception.BlazarClientException, match='cannot be reserved here'):
        leases.create('one', START, END, [reservation], [])
    assert leases.list() == []


def test_deleted_lease_is_not_pending_any_more(leases: Any, lease: dict[str, Any]) -> None:
    leases.delete(lease['id'])
    assert lease['id'] not in {each['id'] for each in leases.list() if each['status'] == 'PENDING'}
