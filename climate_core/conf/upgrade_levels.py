# SPDX-License-Identifier: Apache-2.0
"""Options of the RPC versions that are sent while two releases run: ``[upgrade_levels]``."""

from oslo_config import cfg

GROUP = 'upgrade_levels'

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        'manager',
        regex=r'^\d+\.\d+$',
        help='The highest version of the RPC interface of climate-manager that may be sent, as '
        '1.0. Set it to that of the old release while managers of the old release are still '
        'running: what needs a newer one is refused with 503 until then. Leave it out when all '
        'of them are new.',
    ),
]
