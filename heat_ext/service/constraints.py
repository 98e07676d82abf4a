# SPDX-License-Identifier: Apache-2.0
"""The constraints of properties and parameters, by the names that templates use.

They refuse a wrong value before anything is created. The lease service checks it again.
"""

import datetime
import re
from collections.abc import Callable
from typing import Any, ClassVar

from heat.common import exception
from heat.engine import constraints
from keystoneauth1 import exceptions as ks_exceptions
from oslo_utils import timeutils

from climateclient.extension import dates
from heat_ext.service import client

#: What the lease service takes for a length of time (climate_core/lease/durations.py).
_SHORT = re.compile(
    r'(?=\d)(?:\d{1,9}w)?(?:\d{1,9}d)?(?:\d{1,9}h)?(?:\d{1,9}m)?(?:\d{1,12}s?)?', re.I | re.A
)
_ISO = re.compile(
    r'P(?!$)(?:\d{1,9}W)?(?:\d{1,9}D)?(?:T(?!$)(?:\d{1,9}H)?(?:\d{1,9}M)?(?:\d{1,12}S)?)?',
    re.I | re.A,
)


class LeaseConstraint(constraints.BaseCustomConstraint):
    """``climate.lease``: the id of a lease of the project."""

    resource_client_name = client.CLIENT_NAME
    resource_getter_name = 'get_lease'
    expected_exceptions = (exception.EntityNotFound, ks_exceptions.ClientException)


class _Parsed:
    """A constraint that parses its value and asks no service."""

    message: ClassVar[str]
    _parse: ClassVar[Callable[[Any], Any]]

    def validate(self, value: Any, context: Any) -> bool:  # noqa: ARG002
        """Return whether a value can be parsed; heat calls this."""
        try:
            type(self)._parse(value)
        except ValueError:
            return False
        return True

    def error(self, value: Any) -> str:
        """Return the error of a value that did not pass."""
        return f'{str(value)[:80]!r} {self.message}'


class DateConstraint(_Parsed):
    """``climate.date``: a date that the lease service accepts."""

    message = (
        'must be "now", "YYYY-MM-DD HH:MM" (UTC), or ISO 8601 with an offset like '
        '2026-12-01T16:07:00+01:00.'
    )

    @staticmethod
    def _parse(value: Any) -> datetime.datetime:
        return dates.parse(value, timeutils.utcnow(with_timezone=True))


class DurationConstraint(_Parsed):
    """``climate.duration``: a duration that the lease service accepts."""

    message = 'must be a number of seconds, or "90m", "1d12h", or ISO 8601 like PT1H30M.'

    @staticmethod
    def _parse(value: Any) -> None:
        text = str(value).strip()
        if not any(char in '123456789' for char in text):
            raise ValueError(value)
        if not (_SHORT.fullmatch(text) or _ISO.fullmatch(text)):
            raise ValueError(value)


MAPPING: dict[str, Any] = {
    'climate.lease': LeaseConstraint,
    'climate.date': DateConstraint,
    'climate.duration': DurationConstraint,
}
