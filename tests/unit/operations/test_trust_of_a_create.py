# SPDX-License-Identifier: Apache-2.0
"""What becomes of the trust when a lease cannot be written."""

from collections.abc import Callable
from typing import Any, cast

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc

from climate_core import exceptions
from climate_core.cloud import Cloud
from climate_core.db import leases, sql, tables
from climate_hosts.plugins.host import HostPlugin
from tests.bench.calendar import make_unit
from tests.support.world import NOON, World, user

ID = '6b0a3c2e-6c5e-4c2c-9c8b-3f1d6f6b7a11'
TROUBLE = [sa.exc.TimeoutError('no connection left'), db_exc.DBConnectionError()]


def fails(trouble: Exception) -> Callable[..., Any]:
    def fail(*_args: Any) -> Any:
        raise trouble

    return fail


@pytest.mark.parametrize('trouble', TROUBLE)
def test_create_that_is_not_written_deletes_its_trust(
    world: World, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    monkeypatch.setattr(world.database, 'write', fails(trouble))
    with pytest.raises(type(trouble)):
        world.create('a')
    assert world.trusts.made == 1
    assert world.trusts.present == set()


@pytest.mark.parametrize('trouble', TROUBLE)
def test_the_commit_went_through(
    world: World, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    write = world.database.write

    def broken(*args: Any) -> None:
        write(*args)
        raise trouble

    monkeypatch.setattr(world.database, 'write', broken)
    lease = world.lease(world.create('a'))
    assert world.trusts.present == {lease.trust_id}


@pytest.mark.parametrize('written', [True, False])
@pytest.mark.parametrize('trouble', TROUBLE)
def test_trust_is_kept_while_it_is_unknown_whether_the_lease_is_there(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    trouble: Exception,
    written: bool,
) -> None:
    """The trust is kept, and said, whether the lease is there or not."""
    write, read = world.database.write, world.database.read

    def broken(*args: Any) -> None:
        if written:
            write(*args)
        monkeypatch.setattr(world.database, 'read', fails(trouble))
        raise trouble

    monkeypatch.setattr(world.database, 'write', broken)
    with pytest.raises(type(trouble)):
        world.create('a', id=ID)
    assert world.trusts.present == {'trust1'}
    assert 'trust1' in caplog.text
    found = read(leases.find, ID)
    assert (found is not None) == written


def test_another_manager_took_the_last_host_meanwhile(world: World) -> None:
    """What this one has in memory is old, so it has made a trust before it is refused."""
    other = World(world.conf.database.connection, world.time)
    kind = HostPlugin.resource_type
    world.database.write(sql.insert, tables.UNITS, [make_unit(0, 0, NOON)])
    hour = {'start_date': '2082-12-02 13:00', 'end_date': '2082-12-02 14:00'}
    body = {'name': 'lease', **hour, 'reservations': [{'resource_type': kind, 'min': 1}]}
    for each in (world, other):
        each.conf.register_opts(HostPlugin.options, group=kind)
        each.plugins[kind] = HostPlugin(each.conf, cast(Cloud, None))
        each.calendar.refresh()
    other.operations.creator.create_lease(user(), body)
    with pytest.raises(exceptions.NotEnough):
        world.operations.creator.create_lease(user(), body)
    assert (world.trusts.made, world.trusts.present) == (1, set())
    # It knows by now.
    with pytest.raises(exceptions.NotEnough):
        world.operations.creator.create_lease(user(), body)
    assert world.trusts.made == 1
