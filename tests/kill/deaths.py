# SPDX-License-Identifier: Apache-2.0
"""Where a manager dies, and what must be true after the next one has done the rest."""

#: Points of an event; each look at a resource passes all of them.
EVENT = ('event.claimed', 'remote.before', 'remote.after', 'finish.before', 'finish.after')
OUTBOX = ('outbox.before', 'outbox.after')
#: After something that another service was asked to change, the so-manieth.
WRITE = 'request.after:write:'
#: Before it.
BEFORE_WRITE = 'request.before:write:'
#: The first look asks, the third sees that it is done.
LOOKS = (1, 3)


def kills(event_type, looks=LOOKS):
    """Return every point at which to die on the way of an event."""
    found = [f'{point}:{event_type}:{look}' for point in EVENT for look in looks]
    return found + [f'{point}:lease.event.{event_type}:1' for point in OUTBOX]


def around_writes(*needed):
    """Return the points before and after each request that changes something, refused or not.

    :param needed: how many such requests it takes from the last change to each next one
    """
    return [
        f'{point}{number}'
        for count in needed
        for number in range(1, count + 1)
        for point in (BEFORE_WRITE, WRITE)
    ]


def check_told(stage, event_type, kill):
    """Wait until an event is told; again if its sender died, but under the same id."""
    times = 2 if kill.startswith('outbox.after') else 1
    stage.until(lambda: len(stage.told(event_type)) >= times)
    told = stage.told(event_type)
    assert len(told) == times
    assert len({payload['event_id'] for payload in told}) == 1


def check_no_error(lease):
    assert {event.status for event in lease.events} <= {'DONE', 'UNDONE'}, lease.events
    assert lease.status_reason is None


def start(stage, kill, lease):
    """Let a manager die at this point and the next one start the lease; return it."""
    stage.survive(kill)
    stage.until(lambda: stage.lease(lease).status == 'ACTIVE')
    after = stage.lease(lease)
    check_no_error(after)
    assert {each.status for each in after.reservations} == {'active'}
    return after


def end(stage, kill, lease):
    """Let a manager die at this point and the next one bring the lease to its end; return it."""
    stage.survive(kill)
    stage.until(lambda: stage.is_over(lease))
    after = stage.lease(lease)
    check_no_error(after)
    assert (after.status, {r.status for r in after.reservations}) == ('TERMINATED', {'deleted'})
    return after


def start_with_deaths(stage, lease):
    """Start a lease with managers that die after its first remote calls.

    Each has to wait until the claims that the one before it left behind have expired.
    """
    for count in (1, 2, 3):
        stage.manager(f'remote.after:start_lease:{count}', claims_expire=False).dies()
    stage.manager(claims_expire=False)
    stage.until(lambda: stage.lease(lease).status == 'ACTIVE')
    check_no_error(stage.lease(lease))


def die(stage, *kills):
    """Have one manager after the other die, and start one that lives."""
    for kill in kills:
        stage.manager(kill).dies()
    stage.manager()


def check_told_once(stage, event_type):
    """Wait until something is told; a sender that died has it told again, under the same id."""
    stage.until(lambda: stage.told(event_type))
    assert len({told['event_id'] for told in stage.told(event_type)}) == 1


def check_told_once_each(stage, event_type, leases):
    """Wait until something is told of each lease, once; sent twice it has one id."""
    wanted = sorted(each.id for each in leases)
    stage.until(lambda: {told['id'] for told in stage.told(event_type)} == {*wanted})
    told = {(each['id'], each['event_id']) for each in stage.told(event_type)}
    assert sorted(lease_id for lease_id, _ in told) == wanted
