# SPDX-License-Identifier: Apache-2.0
"""The directive ``climate-events``: the table of events, from the handlers of the code."""

from collections.abc import Iterator
from typing import Any

from generated import Generated, list_table
from sphinx.application import Sphinx

from climate_core.lease import events

HEAD = ('Event', 'Priority', 'Due', 'What it does', 'After a failure', 'Notifications')


class Events(Generated):
    """Write the table here."""

    def write(self) -> Iterator[str]:
        rows = (HEAD, *(_cells(handler) for handler in events.TABLE))
        return list_table('', '18 7 20 25 18 22', rows)


def _cells(handler: events.EventHandler) -> tuple[str, ...]:
    by_user = events.is_user_event(handler.event_type)
    name = '``<name>``' if by_user else f'``{handler.event_type}``'
    calls = ', '.join(f'``{each}``' for each in handler.plugin_methods)
    return (
        name + (' (hidden)' if handler.hidden else ''),
        str(handler.priority),
        handler.due,
        handler.action + (f' (plugin: {calls})' if calls else ''),
        handler.on_failure,
        ', '.join(f'``{each}``' for each in handler.notifications),
    )


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive (called by Sphinx)."""
    app.add_directive('climate-events', Events)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
