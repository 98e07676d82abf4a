# SPDX-License-Identifier: Apache-2.0
"""What an extension sends when a resource joins a lease."""

import dataclasses

import pytest
from keystoneauth1 import adapter, service_token, session, token_endpoint

from climateclient.extension import hints
from climateclient.extension.errors import LeaseRefused
from climateclient.extension.leases import LeaseService
from tests.unit.climateclient import samples
from tests.unit.climateclient.samples import ENDPOINT, LEASE_ID, SERVER_ID, STACK_ID

JOIN = hints.ReservationHints(LEASE_ID, join=True, lease={})
LEASE = {'name': 'l', 'start_date': 'now', 'end_date': '2099-01-01 12:00', 'events': []}
MAKE = hints.ReservationHints(LEASE_ID, join=False, lease=LEASE)
AMOUNTS = {'servers': 1, 'vcpus': 2}
ITEM = {'resource_type': 'virtual:instance', 'resource_id': SERVER_ID}


def service(as_service=True):
    """Return the lease service as an extension sees it, with or without a token of its own."""
    auth = token_endpoint.Token(ENDPOINT, 'a-token')
    if as_service:
        own = token_endpoint.Token(ENDPOINT, 'own-token')
        auth = service_token.ServiceTokenAuthWrapper(user_auth=auth, service_auth=own)
    way = adapter.Adapter(session.Session(auth=auth), auth=auth, endpoint_override=ENDPOINT)
    return LeaseService(way, 'virtual:instance', MADE['user_id'])


def joins(http, *answers):
    """Answer what is sent to the lease; the last answer is that it joined."""
    joined = {'status_code': 201, 'json': {'reservation': samples.reservation()}}
    http.post(f'{ENDPOINT}/leases/{LEASE_ID}/reservations', [*answers, joined])


def refusal(field):
    body = {**samples.error(400, f'{field}: no.', 'request.invalid'), 'field': field}
    return {'status_code': 400, 'json': body}


@pytest.mark.parametrize(
    ('fields', 'sent'),
    [
        ({}, {}),
        ({'on_end': 'stop'}, {'on_end': 'stop'}),
        ({'stack_id': STACK_ID}, {'stack_id': STACK_ID}),
    ],
)
def test_join_sends_the_resource(http, fields, sent):
    joins(http)
    service(as_service=False).reserve(dataclasses.replace(JOIN, **fields), SERVER_ID, AMOUNTS)
    assert http.last_request.json() == ITEM | sent


def test_amounts_are_sent_with_a_service_token(http):
    joins(http)
    service().reserve(JOIN, SERVER_ID, AMOUNTS)
    assert http.last_request.json() == ITEM | {'amounts': AMOUNTS}
    assert http.last_request.headers['X-Service-Token'] == 'own-token'


def test_amounts_are_sent_with_a_new_lease(http):
    http.post(f'{ENDPOINT}/leases', status_code=201, json={'lease': samples.lease()})
    service().reserve(MAKE, SERVER_ID, AMOUNTS)
    assert http.last_request.json()['reservations'] == [ITEM | {'amounts': AMOUNTS}]


@pytest.mark.parametrize('field', ['amounts', 'reservations[0].amounts'])
def test_refused_amounts_are_left_out(http, caplog, field):
    """One of before, or one that does not see the role of the service in its token."""
    joins(http, refusal(field))
    service().reserve(JOIN, SERVER_ID, AMOUNTS)
    assert [each.json() for each in http.request_history] == [ITEM | {'amounts': AMOUNTS}, ITEM]
    assert f'does not accept the amounts of {SERVER_ID}' in caplog.text


@pytest.mark.parametrize('field', ['resource_id', 'reservations[0].on_end', 'amounts.vcpus'])
def test_other_refusal_is_raised(http, field):
    joins(http, refusal(field))
    with pytest.raises(LeaseRefused):
        service().reserve(JOIN, SERVER_ID, AMOUNTS)
    assert http.call_count == 1


MADE = samples.lease(
    name='l', start_date='2082-12-01T12:00:00.000000', end_date='2082-12-01T14:00:00.000000'
)
SAME = {
    **LEASE,
    'start_date': '2082-12-01T12:00:00+00:00',
    'end_date': '2082-12-01T14:00:00+00:00',
}


@pytest.mark.parametrize('status', ['PENDING', 'STARTING', 'ACTIVE', 'ERROR'])
@pytest.mark.parametrize(
    'wanted', [JOIN, dataclasses.replace(MAKE, lease=SAME, id_given=True)], ids=['join', 'repeat']
)
def test_check_returns_the_lease_that_the_hints_name(http, wanted, status):
    http.get(f'{ENDPOINT}/leases/{LEASE_ID}', json={'lease': {**MADE, 'status': status}})
    assert service().check(wanted).id == LEASE_ID


def test_lease_of_another_user_is_rejected_before_anything_is_built(http):
    lease = {**MADE, 'status': 'PENDING', 'user_id': 'another'}
    http.get(f'{ENDPOINT}/leases/{LEASE_ID}', json={'lease': lease})
    with pytest.raises(hints.BadHint, match='lease_id: must be a lease of yours'):
        service().check(JOIN)


@pytest.mark.parametrize(
    ('wanted', 'found', 'field'),
    [
        (JOIN, {'status': 'TERMINATED'}, 'lease_id'),
        (MAKE, {'status': 'TERMINATED'}, 'lease_params.id'),
        (MAKE, {'name': 'other'}, 'lease_params.id'),
        (MAKE, {'start_date': '2082-12-01T12:30:00'}, 'lease_params.id'),
        (MAKE, {'end_date': '2082-12-01T15:00:00'}, 'lease_params.id'),
    ],
)
def test_check_refuses_a_lease_that_is_over_or_another(http, wanted, found, field):
    lease = {**MADE, 'status': 'PENDING', **found}
    http.get(f'{ENDPOINT}/leases/{LEASE_ID}', json={'lease': lease})
    if not wanted.join:
        wanted = dataclasses.replace(wanted, lease=SAME, id_given=True)
    with pytest.raises(hints.BadHint, match=field) as caught:
        service().check(wanted)
    assert 'lease_id' in str(caught.value) or 'TERMINATED' in str(caught.value)
