#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw the pictures of the documents: ``doc/pictures/draw.py`` writes doc/source/pictures."""

import pathlib
from collections.abc import Callable

from shapes import Picture

PLACE = pathlib.Path(__file__).resolve().parents[1] / 'source' / 'pictures'


def server() -> Picture:
    """Draw a reserved server: a row for each service, the time from left to right."""
    picture = Picture('A reserved server, from its request to its end', 900, 400)
    for y, name in ((30, 'user'), (130, 'Nova'), (270, 'Climate')):
        picture.box(10, y, 80, 60, name, 'ours' if name == 'Climate' else 'plain')
    for x, when in ((300, 'now'), (520, 'the start'), (760, 'the end')):
        picture.line((x, 26), (x, 350))
        picture.words(x, 16, when, bold=0)

    picture.box(110, 30, 190, 60, 'server create\n--hint reserved=True', 'plain')
    picture.words(412, 64, 'the user may change,\nstart or end the lease', small=True)
    picture.arrow((205, 90), (205, 130))
    picture.box(110, 130, 190, 60, 'scheduled, claimed,\nports created', 'plain')
    picture.box(310, 130, 200, 60, 'RESERVED\nclaims its host', 'asleep')
    picture.box(530, 130, 220, 60, 'ACTIVE\nruns', 'awake')
    picture.box(770, 130, 120, 60, 'deleted, or\nanother on_end', 'over')
    picture.arrow((205, 190), (205, 270))
    picture.words(197, 234, 'POST /v1/leases', 'end', small=True)
    picture.box(110, 270, 190, 60, 'lease, reservation,\nevents', 'ours')
    picture.box(310, 270, 200, 60, 'PENDING', 'asleep')
    picture.box(530, 270, 220, 60, 'ACTIVE', 'awake')
    picture.box(770, 270, 120, 60, 'TERMINATED', 'over')
    picture.arrow((540, 270), (540, 190))
    picture.words(548, 234, 'wake_up: nova-compute spawns', 'start', small=True)
    picture.arrow((780, 270), (780, 190))
    picture.words(788, 234, 'on_end', 'start', small=True)
    picture.arrow((110, 366), (890, 366))
    picture.words(500, 388, 'time', small=True)
    return picture


def architecture() -> Picture:
    """Draw which service calls which."""
    picture = Picture('The extensions and the lease service', 900, 520)
    picture.box(20, 20, 860, 150, 'OpenStack', 'ground', top=True)
    for x, name, extension in (
        (40, 'Nova', 'nova_ext'),
        (250, 'Cinder', 'cinder_ext'),
        (460, 'Heat', 'heat_ext'),
    ):
        picture.box(x, 55, 190, 100, name, top=True)
        picture.box(x + 20, 95, 150, 46, f'{extension}\nextension', 'ours')
    picture.box(670, 55, 190, 100, 'Keystone\ntokens, trusts, limits')

    picture.box(20, 240, 380, 190, 'climate-api', 'ground', top=True)
    picture.box(50, 285, 320, 46, 'REST: leases, reservations, usage', 'ours')
    picture.box(50, 345, 320, 46, 'policies, schemas, request ids', 'ours')
    picture.box(500, 240, 380, 190, 'climate-manager (any number)', 'ground', top=True)
    picture.box(520, 275, 165, 46, 'operations\nrequests of users', 'ours')
    picture.box(695, 275, 165, 46, 'repair\nlost resources', 'ours')
    picture.box(520, 327, 165, 46, 'engine\ndue events', 'ours')
    picture.box(695, 327, 165, 46, 'delivery\nnotifications', 'ours')
    picture.box(520, 379, 340, 40, 'plugins: server, volume, stack, packages', 'ours')

    picture.arrow((135, 155), (135, 240))
    picture.arrow((345, 155), (345, 240))
    picture.words(240, 204, "POST /v1/leases\nwith the user's token", small=True)
    picture.arrow((400, 305), (500, 305))
    picture.words(450, 296, 'RPC: changes', small=True)
    picture.arrow((600, 240), (600, 155))
    picture.words(592, 200, 'wake_up, end:', 'end', small=True)
    picture.words(592, 216, "the owner's trust", 'end', small=True)
    picture.arrow((700, 155), (700, 240), dashed=True)
    picture.words(708, 208, 'notifications', 'start', small=True)
    picture.arrow((820, 240), (820, 155))
    picture.box(290, 462, 320, 46, 'SQL database: the only durable hand-off')
    picture.arrow((560, 430), (560, 462), both=True)
    picture.arrow((345, 430), (345, 462))
    picture.words(337, 450, 'reads', 'end', small=True)
    picture.words(568, 450, 'reads, writes', 'start', small=True)
    picture.arrow((780, 430), (780, 485))
    picture.words(772, 452, 'webhooks,\nthe message bus', 'end', small=True)
    picture.arrow((480, 155), (375, 240))
    return picture


def event() -> Picture:
    """Draw one event, from the claim to the finish."""
    picture = Picture('One event, from the claim to the finish', 900, 560)
    steps = (
        ('scheduler', 'waits until the next event is due: one indexed query', 'plain'),
        ('claim', 'UPDATE ... WHERE generation = ?  (one manager wins)', 'ours'),
        ('run', 'each reservation: read the resource, do what is missing', 'ours'),
        ('finish', 'one transaction, only with the claim: lease, event, outbox', 'ours'),
        ('notify', 'message bus and webhooks, from the outbox', 'ours'),
    )
    for number, (name, what, colour) in enumerate(steps):
        y = 20 + number * 108
        picture.box(30, y, 450, 70, f'{name}\n{what}', colour)
        if number:
            picture.arrow((255, y - 38), (255, y))
    picture.arrow((560, 55), (480, 55))
    picture.words(570, 52, 'RPC starts it earlier', 'start', small=True)
    picture.words(570, 68, 'when a request makes an event due', 'start', small=True)
    picture.box(570, 108, 300, 110, 'the claim is lost', 'asleep', top=True)
    picture.words(
        720, 152, 'another manager won, or this manager\ndied and its claim expired:\n'
        'another manager continues', small=True
    )  # fmt: skip
    picture.arrow((480, 163), (570, 163))
    picture.box(570, 236, 300, 110, 'in progress', 'asleep', top=True)
    picture.words(
        720, 280, 'the resource is changing, or a service\ndoes not answer: the event is due\n'
        'again, at growing intervals', small=True
    )  # fmt: skip
    picture.arrow((480, 279), (570, 279))
    picture.arrow((870, 300), (885, 300), (885, 30), (480, 30))
    picture.box(570, 364, 300, 110, 'permanent error', 'over', top=True)
    picture.words(
        720, 408, 'the reservation and the lease are in ERROR,\n'
        'with the reason.\n'
        'An end is always retried', small=True
    )  # fmt: skip
    picture.arrow((480, 295), (525, 295), (525, 440), (570, 440))
    picture.arrow((570, 395), (480, 395))
    return picture


def stack() -> Picture:
    """Draw the order in which a stack is reserved, started and ended."""
    picture = Picture('The order of a reserved stack', 900, 470)
    rows = (
        (40, 'before\nthe start', 'asleep'),
        (180, 'at\nthe start', 'awake'),
        (330, 'at\nthe end', 'over'),
    )
    for y, name, _ in rows:
        picture.box(10, y, 90, 80, name)
    picture.line((10, 150), (890, 150))
    picture.line((10, 300), (890, 300))
    _draw_held(picture)
    _draw_woken(picture)
    _draw_ended(picture)
    return picture


def _draw_held(picture: Picture) -> None:
    held = ('networks, ports\nexist', 'volumes\nlease-reserved', 'servers\nRESERVED')
    for number, words in enumerate(held):
        colour = 'awake' if not number else 'asleep'
        picture.box(120 + number * 195, 40, 175, 80, words, colour)
    picture.box(
        705, 40, 185, 80, 'other resources\nCREATE_COMPLETE,\nwithout effect yet', 'asleep'
    )
    picture.words(
        120, 20, 'stack create: CREATE_COMPLETE, and the lease has all resources', 'start', bold=0
    )


def _draw_woken(picture: Picture) -> None:
    picture.words(
        120,
        168,
        'Climate updates the stack; Heat starts its resources in the order of the template',
        'start',
        bold=0,
    )
    woken = (
        'volumes\nare created',
        'servers\nboot from them',
        'attachments',
        'deployments,\nwait conditions',
    )
    for number, words in enumerate(woken):
        picture.box(120 + number * 195, 185, 165, 70, words, 'awake')
        if number:
            picture.arrow((90 + number * 195, 220), (120 + number * 195, 220))
    picture.words(
        120,
        280,
        'a resource waits for those that it needs; a failed resource is retried',
        'start',
        small=True,
    )


def _draw_ended(picture: Picture) -> None:
    picture.words(
        120, 318, 'on_end of the stack: delete, suspend, snapshot or nothing', 'start', bold=0
    )
    ended = (
        'the stack\nHeat deletes in reverse order',
        'remaining servers\nand volumes',
        'the trust of the owner\nis released',
    )
    for number, words in enumerate(ended):
        picture.box(120 + number * 262, 335, 232, 70, words, 'over')
        if number:
            picture.arrow((90 + number * 262, 370), (120 + number * 262, 370))
    picture.words(
        120,
        430,
        'not deleted: retained and abandoned resources, standby members that never ran',
        'start',
        small=True,
    )


def lane() -> Picture:
    """Draw which servers enter a host of a pool, and the states of a lane."""
    picture = Picture('A host of the pool and its lanes in Placement', 900, 560)
    picture.words(10, 24, 'nova-scheduler asks Placement for candidates', 'start', bold=0)
    asking = (
        (40, 'no hint', 'hosts outside of the pool'),
        (160, 'hint reservation=R', 'a slot of R, this project'),
        (280, "R, another project's", 'a slot of R, that project'),
    )
    for y, name, what in asking:
        picture.box(10, y, 240, 70, f'{name}\n{what}')
    picture.box(400, 40, 480, 310, 'compute3, in the aggregate of the pools', 'ground', top=True)
    picture.words(640, 90, 'VCPU, MEMORY_MB, DISK_GB: reported by nova-compute', small=True)
    lanes = (
        ('lane 0: open for R', 'slots 10, reserved 0; R, its project, its flavor', 'awake'),
        ('lane 1: open for S', 'slots 2, reserved 0; S, its project, its flavor', 'awake'),
        ('lane 2: closed', 'slots 1, reserved 1; no reservation', 'over'),
        ('lane 3: closed', 'slots 1, reserved 1; no reservation', 'over'),
    )
    for number, (name, what, colour) in enumerate(lanes):
        picture.box(430, 105 + number * 60, 420, 50, f'{name}\n{what}', colour)
    picture.arrow((250, 75), (390, 75), dashed=True)
    picture.words(325, 66, 'rejected', small=True)
    picture.arrow((250, 195), (340, 195), (340, 130), (430, 130))
    picture.words(295, 188, 'accepted', small=True)
    picture.arrow((250, 315), (390, 315), dashed=True)
    picture.words(325, 306, 'rejected', small=True)

    picture.words(10, 392, 'States of a lane', 'start', bold=0)
    states = (
        ('closed', 'all slots are\nreserved', 'over'),
        ('prepared', 'it names the\nreservation', 'asleep'),
        ('open', 'accepts servers', 'awake'),
        ('ended', 'accepts no server,\nservers leave', 'over'),
    )
    for number, (name, what, colour) in enumerate(states):
        picture.box(10 + number * 230, 410, 180, 80, f'{name}\n{what}', colour)
        if number:
            picture.arrow((number * 230 - 40, 450), (10 + number * 230, 450))
    for x, when in ((215, 'before'), (445, 'start'), (675, 'end')):
        picture.words(x, 440, when, small=True)
    picture.arrow((790, 490), (790, 520), (100, 520), (100, 490))
    picture.words(445, 540, 'the host has no server of the lane', small=True)
    return picture


def power() -> Picture:
    """Draw the power states of a host that is powered off until a lease needs it."""
    picture = Picture('A host that is powered off until a lease needs it', 900, 400)
    for y, name in ((30, 'the host'), (130, 'its service'), (230, 'its machine')):
        picture.box(10, y, 100, 70, name, 'ours' if y == 30 else 'plain')
    for x, when in ((560, 'power on'), (770, 'start of lease')):
        picture.line((x, 26), (x, 340))
        picture.words(x, 16, when, bold=0)
    states = (
        (120, 100, 'awake', 'open', 'on', 'awake'),
        (230, 140, 'falling_asleep', 'withheld, disabled', 'shuts down', 'over'),
        (380, 170, 'asleep', 'withheld, down', 'off', 'asleep'),
        (570, 140, 'waking', 'withheld, disabled', 'is switched on', 'over'),
        (720, 170, 'awake', 'enabled, open', 'on', 'awake'),
    )
    for x, width, name, seen, machine, colour in states:
        for y, text in ((30, name), (130, seen), (230, machine)):
            picture.box(x, y, width, 70, text, colour)
    picture.words(225, 326, 'no lease within sleep_after', small=True)
    picture.words(665, 326, 'as measured, + wake_slack', small=True)
    picture.arrow((120, 356), (890, 356))
    picture.words(500, 378, 'time', small=True)
    return picture


def calendar() -> Picture:
    """Draw the calendar on a terminal, of a member and of an operator."""
    picture = Picture('The calendar on a terminal', 900, 420)
    _draw_terminal(picture, 10, '$ openstack lease calendar', ('Resource', 'Lease', 'Status'))
    _draw_rows(
        picture,
        100,
        (
            ('physical:host 5f0c2a9e', 'lease1', 'ACTIVE', ((0, 150),)),
            ('virtual:floatingip 203.0.113.20', 'lease2', 'PENDING', ((96, 192),)),
            ('network VLAN 1201 of physnet1', 'lease3', 'PENDING', ((210, 420),)),
        ),
    )
    _draw_terminal(picture, 225, '$ openstack lease calendar --hosts', ('ID', 'Host', 'Pool'))
    _draw_rows(
        picture,
        315,
        (
            ('1', 'compute4', 'default', ((0, 170), (220, 300))),
            ('2', 'compute5', 'default', ((330, 420),)),
            ('3', 'gpu1', 'gpu', ()),
        ),
    )
    return picture


_COLUMNS = (25, 265, 345)
#: Where the bars are, and how long a day is.
_BARS, _DAY = 435, 64


def _draw_terminal(picture: Picture, y: int, command: str, names: tuple[str, ...]) -> None:
    """Draw a command, the heads of its table, and the days below the zone."""
    picture.box(10, y, 880, 185, '', 'ground')
    picture.words(_COLUMNS[0], y + 24, command, 'start', small=True)
    for x, name in zip((*_COLUMNS, _BARS), (*names, 'Calendar'), strict=True):
        picture.words(x, y + 50, name, 'start', bold=0, small=True)
    picture.words(_COLUMNS[2], y + 72, 'CET', 'start', bold=0, small=True)
    for number in range(1, 7):
        x = _BARS + number * _DAY
        picture.words(x + 4, y + 72, f'12-0{number + 1}', 'start', small=True)
        picture.line((x, y + 60), (x, y + 175))


def _draw_rows(
    picture: Picture,
    y: int,
    rows: tuple[tuple[str, str, str, tuple[tuple[int, int], ...]], ...],
) -> None:
    """Draw rows with their bars, whose start and end are in pixels."""
    for number, (*texts, bars) in enumerate(rows):
        top = y + number * 28
        for x, text in zip(_COLUMNS, texts, strict=True):
            picture.words(x, top + 14, text, 'start', small=True)
        for start, end in bars:
            picture.box(_BARS + start, top, end - start, 18, '', 'awake')


PICTURES: dict[str, Callable[[], Picture]] = {
    'server': server,
    'architecture': architecture,
    'event': event,
    'stack': stack,
    'lane': lane,
    'power': power,
    'calendar': calendar,
}


def main() -> None:
    PLACE.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (PLACE / f'{name}.svg').write_text(draw().svg(), encoding='utf-8')


if __name__ == '__main__':
    main()
