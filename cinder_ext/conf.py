# SPDX-License-Identifier: Apache-2.0
"""The section ``[climate]`` of cinder.conf, read by cinder-api and by cinder-volume."""

from typing import Any

from oslo_config import cfg

from climateclient.extension import hints, options

GROUP = options.GROUP
#: What may happen to a volume at the end of its lease.
ON_END = ('delete', 'backup', 'snapshot', 'detach', 'nothing')

OPTS = [*options.OPTS]


def register(conf: cfg.ConfigOpts) -> None:
    """Make the section known; a second time does nothing."""
    conf.register_opts(OPTS, group=GROUP)


def rules(conf: cfg.ConfigOpts) -> hints.Rules:
    """Give the rules for the hints of a volume."""
    return options.rules(conf, ON_END)


def list_opts() -> list[tuple[str, list[Any]]]:
    """Give the options to oslo-config-generator."""
    return [(GROUP, OPTS)]
