# SPDX-License-Identifier: Apache-2.0
"""Check the disks, networks and ports of servers that are created for a lease, by Nova's rules.

Facts: nova/block_device.py ``from_api``; nova/compute/api.py ``_check_and_transform_bdm`` and
``_validate_bdm``; nova/api/openstack/compute/servers.py ``_get_requested_networks``;
nova/network/neutron.py ``validate_networks`` and ``_check_external_network_attach``.
"""

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from oslo_config import cfg
from oslo_utils import uuidutils

from climate_core import exceptions
from climate_core.cloud import errors, neutron, servers, volumes
from climate_core.plugins import provisioned_plugin

if TYPE_CHECKING:
    from climate_core.cloud import connections

BLOCK_DEVICES_KEY: Final = 'block_device_mapping_v2'
#: The property of an image with block devices of its own, one of which may be the root disk.
_IMAGE_DEVICES_KEY: Final = 'block_device_mapping'
#: By its source_type: what checks the uuid of a block device, and the GiB that its volume needs.
_DEVICE_SOURCES: Final[Mapping[str, provisioned_plugin.SourceCheck]] = {
    'image': (servers.check_image, servers.image_disk_gb),
    'snapshot': (volumes.check_snapshot, operator.itemgetter('size')),
    'volume': (volumes.check, lambda _: 0),
}
#: What Nova accepts as ``disk_bus`` (nova/objects/fields.py DiskBus).
BUSES: Final = ('fdc', 'ide', 'lxc', 'sata', 'scsi', 'uml', 'usb', 'virtio', 'xen')

BlockDevice = Mapping[str, Any]


def check_block_devices(
    conn: 'connections.Connection',
    server: Mapping[str, Any],
    flavor: Mapping[str, Any],
    image: Mapping[str, Any] | None,
    field: str,
) -> Mapping[str, Any] | None:
    """Check the block devices with the rights of the user.

    :param server: the ``server`` of the request
    :param image: that of ``imageRef``
    :param field: where the devices stand
    :returns: the image that the servers boot from, as far as it is known
    :raises climate_core.exceptions.ClimateError: the user lacks a source, or Nova would reject a
        device for any user; naming the field
    """
    devices = server.get(BLOCK_DEVICES_KEY, ())
    sources: list[Mapping[str, Any] | None] = []
    for number, device in enumerate(devices):
        where = f'{field}[{number}]'
        sources.append(_check_device(conn, device, where))
        check_device(device, where, image is not None, server.get('count', 1))
        _check_name(device, where, image)
    root = next((number for number, each in enumerate(devices) if _boot_index(each) == 0), None)
    if image is None and root is not None and devices[root].get('source_type') == 'image':
        image = sources[root]
    check_devices_together(devices, flavor, field, _IMAGE_DEVICES_KEY in (image or {}))
    return image


def has_disk_on_host(server: Mapping[str, Any]) -> bool:
    """Return whether the root disk of a server is on the host, and as large as its flavor says."""
    devices = server.get(BLOCK_DEVICES_KEY)
    return not devices or any(
        _boot_index(each) == 0 and each.get('destination_type') == 'local' for each in devices
    )


def _boot_index(device: BlockDevice) -> int | None:
    index = device.get('boot_index')
    return None if index is None else int(index)


def _check_device(
    conn: 'connections.Connection', device: BlockDevice, field: str
) -> Mapping[str, Any] | None:
    """Reject a device whose volume, snapshot, image or volume type the user lacks.

    :returns: the volume, snapshot or image
    """
    source, source_id = device.get('source_type'), device.get('uuid')
    found = None
    if source_id is not None:
        if not isinstance(source, str) or source not in _DEVICE_SOURCES:
            raise exceptions.BadRequest(
                'source_type: must be image, snapshot or volume with a uuid.',
                field=f'{field}.source_type',
            )
        if not uuidutils.is_uuid_like(source_id):
            raise exceptions.BadRequest('uuid: must be a UUID.', field=f'{field}.uuid')
        get, needed_gb = _DEVICE_SOURCES[source]
        with errors.for_user(f'{field}.uuid'):
            found = get(conn, source_id)
        size, least = device.get('volume_size'), needed_gb(found)
        if size is not None and device.get('destination_type') == 'volume' and int(size) < least:
            raise exceptions.BadRequest(
                f'{field}.volume_size: must be at least {least} (GiB), which the {source} needs.',
                field=f'{field}.volume_size',
            )
    if 'volume_type' in device:
        with errors.for_user(f'{field}.volume_type'):
            volumes.check_type(conn, device['volume_type'])
    return found


def check_device(device: BlockDevice, field: str, has_image: bool, count: int) -> None:
    """Reject a device that Nova rejects for any user.

    :param has_image: the servers have an ``imageRef``
    :param count: number of servers
    """
    _raise_first(field, _device_faults(device, has_image, count))


def _device_faults(
    device: BlockDevice, has_image: bool, count: int
) -> Iterator[tuple[bool, str, str]]:
    bus = device.get('disk_bus')
    yield bool(bus) and bus not in BUSES, 'disk_bus', f'must be one of {", ".join(BUSES)}'
    if device.get('no_device'):
        return
    source, destination = device.get('source_type'), device.get('destination_type')
    is_root = has_image and str(device.get('boot_index')) == '0'
    is_new = destination == 'volume' and source in ('blank', 'image')
    is_kept = source == 'volume' or destination == 'local'
    yield source is None, 'source_type', 'must be image, snapshot, volume or blank'
    yield source == 'blank' and 'uuid' in device, 'uuid', 'must be left out: blank has none'
    yield source != 'blank' and 'uuid' not in device, 'uuid', f'must be that of the {source}'
    yield (
        source == 'image' and destination == 'local' and not is_root,
        'destination_type',
        'must be volume, if the device is not that of imageRef with boot_index 0',
    )
    yield (
        source == 'volume' and count > 1,
        'uuid',
        'must be left out: several servers cannot have the same volume',
    )
    yield (
        is_kept and bool(device.get('volume_type')),
        'volume_type',
        'must be left out: it is for a new volume',
    )
    yield is_new and 'volume_size' not in device, 'volume_size', 'must be the GiB of the volume'


def _check_name(device: BlockDevice, field: str, image: Mapping[str, Any] | None) -> None:
    """Reject a volume with the name of the root disk, if that is the one of an image."""
    # An image may name its root disk otherwise.
    if image is None or {'root_device_name', 'mappings'} & image.keys():
        return
    name = str(device.get('device_name') or '').removeprefix('/dev/')
    is_volume = device.get('destination_type') == 'volume'
    problem = 'must not be that of the root disk, vda'
    _raise_first(field, [(is_volume and name == 'vda', 'device_name', problem)])


def check_devices_together(
    devices: Sequence[BlockDevice], flavor: Mapping[str, Any], field: str, may_have_root: bool
) -> None:
    """Reject devices that Nova rejects together.

    :param may_have_root: the image may bring a root disk of its own
    """
    boots = sorted(
        index for each in devices if (index := _boot_index(each)) is not None and index >= 0
    )
    if devices and not may_have_root and (not boots or boots != [*range(len(boots))]):
        raise exceptions.BadRequest(
            f'{field}: must have the boot_index 0, which is the root disk, 1 and so on, each '
            'once, and -1 or null for a device that is not booted from. The image of imageRef is '
            'a device of its own, with the source_type image and the destination_type local. '
            f'Given: {", ".join(map(str, boots)) or "none"}.',
            field=field,
        )
    local = [
        each
        for each in devices
        if (each.get('source_type'), each.get('destination_type')) == ('blank', 'local')
    ]
    swap = [each for each in local if each.get('guest_format') == 'swap']
    ephemeral = flavor['OS-FLV-EXT-DATA:ephemeral']
    _check_size('ephemeral', 'GiB', ephemeral, field, _sum_sizes(local, ephemeral, swap))
    _check_size('swap', 'MiB', int(flavor['swap'] or 0), field, _sum_sizes(swap, 0, ()))
    if len(swap) > 1:
        raise exceptions.BadRequest(f'{field}: must have at most one swap disk.', field=field)


def _sum_sizes(devices: Sequence[BlockDevice], usual: int, without: Sequence[BlockDevice]) -> int:
    """Return the size of some devices together.

    :param usual: the size of a device that has none
    """
    return sum(int(each.get('volume_size') or usual) for each in devices if each not in without)


def _check_size(name: str, unit: str, limit: int, field: str, size: int) -> None:
    if size > limit:
        raise exceptions.BadRequest(
            f'{field}: must have at most {limit} {unit} of {name} disks, as the flavor has, not '
            f'{size}.',
            field=field,
        )


def _raise_first(field: str, faults: Iterable[tuple[bool, str, str]]) -> None:
    for is_wrong, name, problem in faults:
        if is_wrong:
            raise exceptions.BadRequest(f'{field}.{name}: {problem}.', field=f'{field}.{name}')


NETWORKS_KEY: Final = 'networks'
EXTERNAL_NETWORKS_OPTION: Final = cfg.BoolOpt(
    'external_networks',
    default=False,
    help='Whether the policy network:attach_external_network of Nova lets members attach servers '
    'to external networks that are not shared with their project. Its default does not, and '
    'Climate rejects servers on such networks when their lease is created.',
)


def check_networks(
    conn: 'connections.Connection', server: Mapping[str, Any], field: str, allows_external: bool
) -> None:
    """Check the networks with the rights of the user.

    :param server: the ``server`` of the request
    :param field: where the networks stand
    :param allows_external: see :data:`EXTERNAL_NETWORKS_OPTION`
    :raises climate_core.exceptions.ClimateError: the user lacks one, or Nova would reject it at
        any time; naming the field
    """
    if server.get(NETWORKS_KEY) == 'auto':
        with errors.for_user(field):
            neutron.check_default_network(conn)
    for number, interface in enumerate(_list_interfaces(server)):
        where = f'{field}[{number}]'
        _check_interface(interface, where, server.get('count', 1))
        if 'port' in interface:
            with errors.for_user(f'{where}.port'):
                neutron.check_port(conn, interface['port'], allows_external)
        else:
            with errors.for_user(f'{where}.uuid'):
                neutron.check_network(conn, interface['uuid'], allows_external)


def check_ports_free(
    conn: 'connections.Connection', server: Mapping[str, Any], field: str
) -> None:
    """Check what must be right when servers are created; raises as :func:`check_networks`."""
    for where, port_id in list_ports(server, field):
        with errors.for_user(where):
            neutron.check_port_unused(conn, port_id)


def _list_interfaces(server: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    listed = server.get(NETWORKS_KEY, ())
    return () if isinstance(listed, str) else listed


def list_ports(server: Mapping[str, Any], field: str) -> Iterator[tuple[str, str]]:
    """Yield the field and the id of each port."""
    for number, interface in enumerate(_list_interfaces(server)):
        if 'port' in interface:
            yield f'{field}[{number}].port', interface['port']


def _check_interface(interface: Mapping[str, Any], field: str, count: int) -> None:
    """Reject what Nova rejects for any user.

    :param count: number of servers
    """
    if ('uuid' in interface) == ('port' in interface):
        raise exceptions.BadRequest('It must have one of uuid and port.', field=field)
    for name in ('port', 'fixed_ip'):
        if name in interface and count > 1:
            raise exceptions.BadRequest(
                f'Several servers cannot have the same {name}: leave it out, or request each '
                'server in a separate reservation.',
                field=f'{field}.{name}',
            )
    if 'port' in interface and 'fixed_ip' in interface:
        raise exceptions.BadRequest(
            f'{field}.fixed_ip: must be left out with a port, which has addresses of its own.',
            field=f'{field}.fixed_ip',
        )
