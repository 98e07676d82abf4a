# SPDX-License-Identifier: Apache-2.0
"""Options of the service that keeps the limits of projects: section ``[oslo_limit]``.

oslo.limit registers its options on the global configuration alone, so they are put on ours here.
The sample has them from its own namespace.
"""

import oslo_limit.opts
from keystoneauth1 import loading
from oslo_config import cfg

GROUP = 'oslo_limit'
_OWN = frozenset(
    {
        'endpoint_id',
        'endpoint_service_name',
        'endpoint_service_type',
        'endpoint_region_name',
        'endpoint_interface',
    }
)


def register(conf: cfg.ConfigOpts) -> None:
    """Register the section on ``conf``; our own endpoint is looked up by its service type."""
    adapter = loading.get_adapter_conf_options(include_deprecated=False)
    ((_, options),) = oslo_limit.opts.list_opts()
    own = [each for each in options if each.dest in _OWN]
    for group in (
        adapter,
        own,
        loading.get_session_conf_options(),
        loading.get_auth_common_conf_options(),
        loading.get_auth_plugin_conf_options('password'),
    ):
        # As in section [cloud]: keystoneauth registers what it requires by itself.
        conf.register_opts([each for each in group if not each.required], GROUP)
    conf.set_default('endpoint_service_type', 'reservation', GROUP)
