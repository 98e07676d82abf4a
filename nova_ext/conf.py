# SPDX-License-Identifier: Apache-2.0
"""The section ``[climate]`` of nova.conf, read by nova-api and by nova-compute."""

from typing import Any

from oslo_config import cfg

from climate_common import resource_types
from climateclient.extension import hints, options

GROUP = options.GROUP

OPTS = [
    *options.OPTS,
    cfg.ListOpt(
        'stash_keys',
        default=[],
        secret=True,
        help='Private keys of nova-api, which open what a reserved server needs at its start and '
        'nova keeps nowhere: the admin password, and files to inject. Each is 32 bytes in '
        'URL-safe base64 (climate-nova-stash generate). Every nova-api needs the same; '
        'nova-compute needs none. The public key of the first is stash_public_key of the '
        'computes; the others open what was sealed before. With no key nova-api rejects '
        'adminPass and personality of reserved servers.',
    ),
    cfg.StrOpt(
        'stash_public_key',
        help='Public key with which nova-compute seals the admin password and the files of a '
        'reserved server (climate-nova-stash public). It opens nothing. By default that of the '
        'first of stash_keys, if nova-compute reads the same nova.conf as nova-api.',
    ),
    options.WAKE_UP_TIMEOUT,
]


def register(conf: cfg.ConfigOpts) -> None:
    """Make the section known; a second time does nothing."""
    conf.register_opts(OPTS, group=GROUP)


def rules(conf: cfg.ConfigOpts) -> hints.HintRules:
    """Return the rules for the hints of a server."""
    return options.rules(conf, list(resource_types.ON_END[resource_types.SERVER]))


def list_opts() -> list[tuple[str, list[Any]]]:
    """Return the options, for oslo-config-generator."""
    return [(GROUP, OPTS)]
