# SPDX-License-Identifier: Apache-2.0
"""The directive ``climate-notifications``: every notification, from the schemas of the code.

:mod:`notification_examples` has the examples."""

import json
import urllib.parse
from collections.abc import Iterator
from typing import Any

import notification_examples
from generated import Generated, list_table
from schema_tables import rows, table
from sphinx.application import Sphinx

from climate_core import notifications
from climate_core.notifications import schemas


class Notifications(Generated):
    """Write the tables here."""

    def write(self) -> list[str]:
        return rst().splitlines()


class WebhookRequest(Generated):
    """Write an example of a call of a webhook here."""

    def write(self) -> Iterator[str]:
        body, headers = notification_examples.build_webhook_request()
        url = urllib.parse.urlsplit(notification_examples.WEBHOOK)
        yield from (
            '.. code-block:: http',
            '',
            f'   POST {url.path} HTTP/1.1',
            f'   host: {url.netloc}',
        )
        yield from (f'   {name}: {value}' for name, value in headers.items())
        yield from ('', f'   {body.decode()}', '')


def rst() -> str:
    """Describe every type: when it is sent, and its payload."""
    return '\n'.join(_lines()) + '\n'


def _lines() -> Iterator[str]:
    types = ((f'``{kind.event_type}``', kind.sent) for kind in schemas.list_types())
    yield from list_table('Types', '40 60', (('Event type', 'Sent when'), *types))
    common = list(rows(schemas.USER_EVENT_TYPE.schema))
    yield from table('Payload of the notifications of a lease', 'Field', common)
    for kind in schemas.list_types():
        own = [row for row in rows(kind.schema) if row not in common]
        title = 'Payload of' if kind.event_type == notifications.USAGE else 'Only in'
        yield from table(f'{title} {kind.event_type}', 'Field', own)
    yield from _examples()


def _examples() -> Iterator[str]:
    payloads, whole = notification_examples.build(), notification_examples.WHOLE
    for event_type in (whole, notifications.USAGE, 'host.power.failed'):
        yield from (f'Example of ``{event_type}``:', '', '.. code-block:: json', '')
        shown = json.dumps(payloads[event_type], indent=2)
        yield from (f'   {line}' for line in shown.splitlines())
        yield ''
    yield from (f'.. list-table:: Examples of the other types: what differs from ``{whole}``', '')
    for event_type, fields in notification_examples.differences():
        yield from (f'   * - ``{event_type}``', f'     - ``{json.dumps(fields)}``')
    yield ''


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive (called by Sphinx)."""
    app.add_directive('climate-notifications', Notifications)
    app.add_directive('climate-webhook-request', WebhookRequest)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
