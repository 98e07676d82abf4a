# SPDX-License-Identifier: Apache-2.0
"""Validate the extra spec by which a flavor names a reservation of hosts, as nova's own."""

from nova.api.validation.extra_specs import base, validators

from climate_common import lanes

_UUID = '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}'


def add() -> None:
    """Add the validator to nova's table; a second time does nothing.

    From microversion 2.86 on nova-api answers 400 to another value, and to a misspelt name.
    """
    validators.VALIDATORS[lanes.EXTRA_SPEC] = base.ExtraSpecValidator(
        name=lanes.EXTRA_SPEC,
        description='The id of a reservation of hosts, on one of which the servers are built.',
        value={'type': str, 'pattern': _UUID},
    )
    validators.NAMESPACES.add(lanes.EXTRA_SPEC.partition(':')[0])
