# SPDX-License-Identifier: Apache-2.0
"""In which order ``tests/chaos`` takes the starts of a server from its actions in Nova."""

from typing import Any

from tests.chaos.reservations import BUILD, FAILURE, Reservations


def event(name: str, began: str, result: str | None) -> dict[str, Any]:
    return {'event': name, 'start_time': f'2026-01-01T{began}.000000', 'result': result}


#: What each action has done; Nova lists the last event first.
DONE = {
    'first': [
        event(FAILURE, '13:19:07', 'Error'),
        event(BUILD, '13:18:03', 'Success'),
    ],
    'not begun': [],
    'second': [event(BUILD, '13:19:07', 'Success')],
}


class Told(Reservations):
    def __init__(self, *newest_first: str) -> None:
        self._newest_first = newest_first

    def _read(self, path: str, key: str) -> Any:
        name = path.rsplit('/', 1)[1]
        if key == 'instanceAction':
            return {'events': DONE[name]}
        return [{'request_id': each, 'action': 'wake_up'} for each in self._newest_first]


def test_start_that_failed_in_the_second_in_which_the_next_one_began_is_the_first() -> None:
    assert Told('second', 'not begun', 'first').woken('x') == ['Error', 'Success']


def test_start_after_one_that_succeeded_is_seen() -> None:
    assert Told('second', 'second').woken('x') == ['Success', 'Success']
