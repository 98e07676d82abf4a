# SPDX-License-Identifier: Apache-2.0
"""The section ``[climate]`` of cinder.conf, read by cinder-api and by cinder-volume."""

from typing import Any

from oslo_config import cfg

from climate_common import resource_types
from climateclient.extension import hints, options
from climateclient.extension.errors import LeaseUnavailable

GROUP = options.GROUP

#: The line of cinder.conf that is easily forgotten: cinder-api starts without it.
ACTIONS = 'cinder_ext.api.wake_up.Reservations'

OPTS = [*options.OPTS, options.WAKE_UP_TIMEOUT]


def register(conf: cfg.ConfigOpts) -> None:
    """Make the section known; a second time does nothing."""
    conf.register_opts(OPTS, group=GROUP)


def rules(conf: cfg.ConfigOpts) -> hints.HintRules:
    """Return the rules for the hints of a volume."""
    return options.rules(conf, list(resource_types.ON_END[resource_types.VOLUME]))


def check_lines(conf: cfg.ConfigOpts) -> None:
    """Check that the lease service will be able to wake up what is reserved now.

    :param conf: of cinder-api
    :raises climateclient.extension.errors.LeaseUnavailable: a line is missing in cinder.conf
    """
    if ACTIONS not in conf.osapi_volume_extension:
        raise LeaseUnavailable(
            f'Reservations are not enabled here: osapi_volume_extension = {ACTIONS} is missing in '
            'cinder.conf'
        )


def list_opts() -> list[tuple[str, list[Any]]]:
    """Return the options, for oslo-config-generator."""
    return [(GROUP, OPTS)]
