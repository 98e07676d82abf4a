# SPDX-License-Identifier: Apache-2.0
"""The places in heat that the extension leans on, and the check that they are still there.

None of them is a promise of heat. A heat whose seams differ must not start with us half in it, so
heat-engine checks this table when it loads the plugins, and fails closed. Read in heat 27.0.1.
"""

from climateclient.extension import seams
from climateclient.extension.seams import Seams

_RESOURCE = 'heat.engine.resource'
_CLIENT = 'heat.engine.clients.client_plugin'

LEASE: Seams = {
    (_RESOURCE, 'Resource.needs_replace_failed'): ('self',),
    (_RESOURCE, 'Resource.handle_delete'): ('self',),
    (_CLIENT, 'ClientPlugin._create'): ('self', 'version'),
    (_CLIENT, 'ClientPlugin._get_region_name'): ('self',),
    ('heat.common.context', 'RequestContext.auth_plugin'): None,
    ('heat.common.context', 'RequestContext.keystone_session'): None,
}  # fmt: skip

TABLES = (LEASE,)


def check() -> None:
    """Compare heat with the tables.

    :raises climateclient.extension.errors.Incompatible: with every difference
    """
    seams.check('heat', *TABLES)
