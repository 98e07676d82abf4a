# SPDX-License-Identifier: Apache-2.0
"""The constraints of properties and parameters, by the names that templates use.

They refuse a wrong value before anything is created. The lease service checks it again.
"""

import datetime
from collections.abc import Callable
from typing import Any, ClassVar

from heat.common import exception
from heat.engine import constraints
from keystoneauth1 import exceptions as ks_exceptions
from oslo_utils import timeutils

from climate_common import dates
from heat_ext.service import client


class LeaseConstraint(constraints.BaseCustomConstraint):
    """``climate.lease``: the id of a lease of the project."""

    resource_client_name = client.CLIENT_NAME
    resource_getter_name = 'get_lease'
    expected_exceptions = (exception.EntityNotFound, ks_exceptions.ClientException)


class _Parsed:
    """A constraint that parses its value and asks no service."""

    _parse: ClassVar[Callable[[Any], Any]]

    def validate(self, value: Any, context: Any) -> bool:  # noqa: ARG002
        """Return whether a value can be parsed; heat calls this."""
        return self.error(value) is None

    def error(self, value: Any) -> str | None:
        """Return what is wrong with a value, and what would be right."""
        try:
            type(self)._parse(value)
        except ValueError as error:
            return str(error)
        return None


class DateConstraint(_Parsed):
    """``climate.date``: a date as :mod:`climate_common.dates` reads it."""

    @staticmethod
    def _parse(value: Any) -> datetime.datetime:
        return dates.parse(value, timeutils.utcnow(with_timezone=True))


class DurationConstraint(_Parsed):
    """``climate.duration``: a duration as :mod:`climate_common.dates` reads it."""

    _parse = staticmethod(dates.parse_duration)


MAPPING: dict[str, Any] = {
    'climate.lease': LeaseConstraint,
    'climate.date': DateConstraint,
    'climate.duration': DurationConstraint,
}
