# SPDX-License-Identifier: Apache-2.0
"""``openstack lease feed`` and ``client.feeds``."""

import json

import pytest

from tests.unit.climateclient.samples import ENDPOINT, LEASE_ID, OTHER_ID

FEEDS = f'{ENDPOINT}/feeds'


def feed(feed_id=LEASE_ID, name='phone', **more):
    return {
        'id': feed_id,
        'name': name,
        'project_id': 'project1',
        'user_id': 'user1',
        'created_at': '2082-12-01 11:00:00',
        **more,
    }


@pytest.fixture
def feeds(http):
    http.get(FEEDS, json={'feeds': [feed(), feed(OTHER_ID, 'desk')]})


def test_url_of_a_new_feed_is_shown(run, http):
    url = 'https://climate.example.org/v1/leases.ics?token=t'
    http.post(FEEDS, json={'feed': feed(token='t', url=url)}, status_code=201)
    shown = json.loads(run('lease', 'feed', 'create', 'phone', '-f', 'json'))
    assert shown == {
        'id': LEASE_ID,
        'name': 'phone',
        'created_at': '2082-12-01T11:00:00+00:00',
        'url': url,
    }
    assert http.last_request.json() == {'name': 'phone'}


def test_token_is_not_in_the_text_of_a_feed(client, http):
    http.post(FEEDS, json={'feed': feed(token='secret', url='u?token=secret')}, status_code=201)
    assert 'secret' not in repr(client.feeds.create('phone'))


def test_feeds_are_listed(run, feeds):
    rows = json.loads(run('lease', 'feed', 'list', '-f', 'json'))
    assert [(each['ID'], each['Name']) for each in rows] == [
        (LEASE_ID, 'phone'),
        (OTHER_ID, 'desk'),
    ]


@pytest.mark.parametrize('named', ['desk', OTHER_ID])
def test_feed_is_deleted_by_its_name_or_id(run, http, feeds, named):
    http.delete(f'{FEEDS}/{OTHER_ID}', status_code=204)
    run('lease', 'feed', 'delete', named)
    assert http.last_request.method == 'DELETE'


def test_feed_of_another_user_is_deleted_by_its_id(run, http, feeds):
    http.delete(f'{FEEDS}/of-another', status_code=204)
    run('lease', 'feed', 'delete', 'of-another')
    assert http.last_request.method == 'DELETE'


def test_name_of_several_feeds_deletes_none(fail, http):
    http.get(FEEDS, json={'feeds': [feed(), feed(OTHER_ID)]})
    assert '2 feeds are called phone' in fail('lease', 'feed', 'delete', 'phone')
    assert http.last_request.method == 'GET'
