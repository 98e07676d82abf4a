# SPDX-License-Identifier: Apache-2.0
"""Share the calls about extra properties of hosts and of network segments."""

from keystoneauth1 import adapter

from climateclient.host_models import HostProperty
from climateclient.serialization import read, to_path, to_query


def read_all(http: adapter.Adapter, path: str, private: bool) -> list[HostProperty]:
    """Return the extra properties that there are, and their values.

    :param path: of what has them
    :param private: also those that users may not see, for who may
    """
    values = to_query({'detail': True, 'all': private or None})
    return read(
        http.get(f'{path}/properties', params=values),
        'resource_properties',
        lambda rows: [HostProperty.from_dict(row) for row in rows],
    )


def set_private(http: adapter.Adapter, path: str, name: str, private: bool) -> None:
    """Set whether users may see an extra property; NotFound if nothing has it."""
    http.patch(f'{path}/properties{to_path(name)}', json={'private': private})
