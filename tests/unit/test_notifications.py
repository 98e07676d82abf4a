# SPDX-License-Identifier: Apache-2.0
"""The documents of the notifications, and that the payloads are what these say."""

import dataclasses

import jsonschema
import pytest

from climate_core import notifications
from climate_core.lease import events
from climate_core.notifications import schemas
from tests.unit import payloads
from tests.unit.api import samples

ID = '00000000-0000-4000-8000-000000000000'


def _problems(event_type: str, **changes: object) -> list[str]:
    told = notifications.lease_payload(samples.lease(colour='red'), 'Why.')
    return list(payloads.problems(event_type, {**told, 'event_id': ID, **changes}))


@pytest.mark.parametrize('kind', schemas.list_types(), ids=lambda kind: kind.event_type)
def test_the_schemas_are_schemas(kind: schemas.NotificationType) -> None:
    jsonschema.Draft202012Validator.check_schema(dict(kind.schema))
    assert kind.schema['title'] == kind.event_type
    assert {'event_id', 'schema_version'} <= set(kind.schema['required'])


def test_payload_of_a_lease_fits_the_schema() -> None:
    assert _problems('lease.create') == []
    assert _problems('lease.event.call_mum') == []


def test_what_does_not_fit_is_found() -> None:
    assert _problems('lease.create', status='BROKEN')
    assert _problems('lease.create', created_at='2082-12-01 12:00')
    assert _problems('lease.create', secret='x') == ['lease.create secret: not documented']
    assert _problems('lease.event.start_lease.error', reason=None)
    assert _problems('lease.event.before_start_lease')
    assert not _problems('lease.event.before_start_lease', starts_in=0)


def test_every_own_event_has_a_name() -> None:
    own = {
        f'lease.event.{handler.event_type}'
        for handler in events.TABLE
        if not handler.hidden and not events.is_user_event(handler.event_type)
    }
    assert own <= {kind.event_type for kind in schemas.list_types()}


def test_schema_of_an_unknown_notification_is_none() -> None:
    with pytest.raises(KeyError):
        schemas.get_type('volume.create')
    assert schemas.get_type('lease.event.call_mum') is schemas.USER_EVENT_TYPE


def test_the_seconds_to_the_start() -> None:
    lease = samples.lease()
    now = lease.start_date.replace(minute=0, second=0, microsecond=0)
    _, told = notifications.build('lease.event.before_start_lease', lease, now)
    assert told['starts_in'] == round((lease.start_date - now).total_seconds()) > 0
    started = dataclasses.replace(lease, start_date=now)
    _, told = notifications.build('lease.event.before_start_lease', started, lease.start_date)
    assert told['starts_in'] == 0
    _, told = notifications.build('lease.update', lease, now)
    assert 'starts_in' not in told
