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
        help='Keys that protect what a reserved server needs at its start and nova keeps '
        'nowhere: the admin password, and files to inject. Each is 32 bytes in URL-safe base64 '
        '(python -c "from cryptography.fernet import Fernet as F; '
        'print(F.generate_key().decode())"). The first encrypts, all decrypt; every '
        'nova-compute needs the same. With no key the password is not kept: the server starts '
        'without it.',
    ),
    options.WAKE_UP_TIMEOUT,
]


def register(conf: cfg.ConfigOpts) -> None:
    """Make the section known; a second time does nothing."""
    conf.register_opts(OPTS, group=GROUP)


def rules(conf: cfg.ConfigOpts) -> hints.HintRules:
    """Return the rules for the hints of a server."""
    return options.rules(conf, resource_types.ON_END[resource_types.SERVER])


def list_opts() -> list[tuple[str, list[Any]]]:
    """Return the options, for oslo-config-generator."""
    return [(GROUP, OPTS)]
