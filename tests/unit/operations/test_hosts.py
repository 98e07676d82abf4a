# SPDX-License-Identifier: Apache-2.0
"""Enrolling while others do so, and while things break; the rest is tried with a real Nova."""

import pytest
from oslo_db import exception as db_exc

from climate_core import exceptions
from climate_core.db import hosts as db
from climate_core.operations import hosts as operations
from tests.support.fakes import hypervisors


@pytest.fixture
def insert(monkeypatch):
    """Returns a function that puts another one in the place of the insert of a host."""
    return lambda function: monkeypatch.setattr(db, 'insert', function)


def enrol(hosts, name='cn3'):
    return hosts.operations.create_host(hosts.context, {'name': name})


def test_host_that_another_request_enrols_meanwhile_stays_enrolled(hosts, monkeypatch):
    hypervisors.add(hosts.state, 'cn3')
    learn = operations.learn

    def late(*args):
        monkeypatch.undo()
        enrol(hosts)
        return learn(*args)

    monkeypatch.setattr(operations, 'learn', late)
    with pytest.raises(exceptions.HostExists, match='another request, as host 3'):
        enrol(hosts)
    assert hosts.in_pool() == {'cn1', 'cn2', 'cn3'}


def test_lost_answer_of_the_database_does_not_matter(hosts, monkeypatch):
    hypervisors.add(hosts.state, 'cn3')
    write = hosts.database.write

    def lose(*args):
        write(*args)
        raise db_exc.DBConnectionError

    monkeypatch.setattr(hosts.database, 'write', lose)
    assert enrol(hosts) == 3


def test_host_that_is_not_written_is_given_back(hosts, insert):
    hypervisors.add(hosts.state, 'cn3')

    def fail(*_args):
        raise db_exc.DBError

    insert(fail)
    with pytest.raises(db_exc.DBError):
        enrol(hosts)
    assert hosts.in_pool() == {'cn1', 'cn2'}


def test_what_cannot_be_given_back_is_told_to_the_operator(hosts, insert, caplog):
    hypervisors.add(hosts.state, 'cn3')

    def fail(*_args):
        fault = {'method': 'GET', 'path': '/aggregates', 'status': 503, 'count': 1}
        hosts.state.faults.append(fault)
        raise db_exc.DBError

    insert(fail)
    with pytest.raises(db_exc.DBError):
        enrol(hosts)
    assert 'cn3 is kept from ordinary servers, but was not enrolled' in caplog.text
    assert 'cn3' in hosts.in_pool()


def test_nodes_of_ironic_have_one_lane(hosts):
    hypervisors.add(hosts.state, 'node1', hypervisor_type='ironic')
    host = hosts.database.read(db.get, enrol(hosts, 'node1'))
    assert len(host.lane_ids) == 1
