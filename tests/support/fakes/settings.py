# SPDX-License-Identifier: Apache-2.0
"""A configuration object that points at a fake cloud."""

from oslo_config import cfg

from climate_core.conf import cloud as cloud_conf


def cloud_options(url: str) -> dict[str, str]:
    """Return the options of section ``[cloud]`` for the fake cloud at this URL."""
    return {
        'auth_type': 'password',
        'auth_url': f'{url}/identity',
        'username': 'climate',
        'password': 'secret',
        'user_domain_id': 'default',
        'project_name': 'service',
        'project_domain_id': 'default',
        'timeout': '20',
    }


def conf(url: str) -> cfg.ConfigOpts:
    """Return a configuration with the options of the cloud and the plugins only."""
    made = cfg.ConfigOpts()
    made([], default_config_files=[])
    made.register_opts(cloud_conf.OPTS, group=cloud_conf.GROUP)
    made.register_opts([cfg.ListOpt('plugins', default=['virtual:instance'])], group='manager')
    for name, value in cloud_options(url).items():
        typed = int(value) if name == 'timeout' else value
        made.set_override(name, typed, group=cloud_conf.GROUP)
    return made
