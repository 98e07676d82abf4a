# SPDX-License-Identifier: Apache-2.0
"""What an extension sends when a resource joins a lease."""

import pytest
from keystoneauth1 import adapter, session, token_endpoint

from climateclient.extension import hints
from climateclient.extension.leases import LeaseService
from tests.unit.climateclient import samples
from tests.unit.climateclient.samples import ENDPOINT, LEASE_ID, SERVER_ID, STACK_ID


@pytest.mark.parametrize(
    ('fields', 'sent'),
    [
        ({}, {}),
        ({'on_end': 'stop'}, {'on_end': 'stop'}),
        ({'stack_id': STACK_ID}, {'stack_id': STACK_ID}),
    ],
)
def test_joining(http, fields, sent):
    url = f'{ENDPOINT}/leases/{LEASE_ID}/reservations'
    http.post(url, status_code=201, json={'reservation': samples.reservation()})
    auth = token_endpoint.Token(ENDPOINT, 'a-token')
    way = adapter.Adapter(session.Session(auth=auth), endpoint_override=ENDPOINT)

    wanted = hints.Wanted(LEASE_ID, join=True, lease={}, **fields)
    LeaseService(way, 'virtual:instance').reserve(wanted, SERVER_ID)

    expected = {'resource_type': 'virtual:instance', 'resource_id': SERVER_ID, **sent}
    assert http.last_request.json() == expected
