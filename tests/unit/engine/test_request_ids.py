# SPDX-License-Identifier: Apache-2.0
"""The work on an event goes by one id: in the history, in the log, and towards Nova."""

from oslo_context import context as oslo_context

from climate_core import context, exceptions
from climate_core.db import listing
from climate_core.lease import model
from tests.support.fakes.log_lines import Lines, lines
from tests.support.world import World

__all__ = ('lines',)


def start_of(world: World, lease_id: str) -> model.Event:
    found = world.lease(lease_id).event(model.START)
    assert found is not None
    return found


def test_history_log_and_calls_have_the_id_of_the_event(world: World, lines: Lines) -> None:
    asked: list[str | None] = []

    def call() -> Exception:
        current = oslo_context.get_current()
        assert current is not None
        asked.append(current.global_id)
        return exceptions.Transient('away')

    world.things.answers['wake', 'a'] = [call]
    lease_id = world.create('a')
    world.run()
    wanted = f'req-{start_of(world, lease_id).id}'
    assert asked == [wanted]
    entries = [entry for _, entry in world.database.read(listing.read_history_page, lease_id)[0]]
    ids = {e.request_id for e in entries if e.action == 'event.start_lease'}
    assert ids == {wanted}
    [line] = lines.of('climate_core.engine.plugin_calls')
    assert line['context']['request_id'] == wanted
    assert line['context']['resource_uuid'] == lease_id
    # Not that of the user who made the lease.
    assert line['context']['user'] is None


def test_the_id_is_one_that_other_services_accept() -> None:
    wanted = 'req-11111111-1111-4111-8111-111111111111'
    assert context.event_request_id(wanted.removeprefix('req-')) == wanted
