# SPDX-License-Identifier: Apache-2.0
"""The hooks of a plugin of python-openstackclient.

The name differs from that of python-blazarclient ("reservation"), so both can be installed.
"""

import argparse
from typing import Any

API_NAME = 'climate'
API_VERSION_OPTION = 'os_climate_api_version'
API_VERSIONS = ('1',)
DEFAULT_API_VERSION = '1'


def make_client(instance: Any) -> Any:
    """Make the client when a command asks for ``app.client_manager.climate``.

    :param instance: the ClientManager
    :returns: a :class:`climateclient.client.Client`
    """
    from climateclient.client import SERVICE_TYPE, Client

    return Client(
        instance.session,
        endpoint_override=instance.get_endpoint_for_service_type(
            SERVICE_TYPE,
            region_name=instance.region_name,
            interface=instance.interface,
        ),
        connect_retries=1,
    )


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the global options of this plugin."""
    parser.add_argument(
        '--os-climate-api-version',
        metavar='<climate-api-version>',
        help='Climate API version, default=1 (Env: OS_CLIMATE_API_VERSION)',
    )
    return parser
