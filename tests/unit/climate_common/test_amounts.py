# SPDX-License-Identifier: Apache-2.0
import pytest

from climate_common import resource_types


def test_every_unit_but_disks_has_a_limit() -> None:
    units = {
        *resource_types.SERVER_UNITS,
        *resource_types.VOLUME_UNITS,
        resource_types.STACKS,
        resource_types.HOSTS,
    }
    units |= {resource_types.FLOATING_IPS, resource_types.NETWORKS}
    assert units - {*resource_types.LIMITED_UNITS} == {resource_types.DISK_GB}
    assert {*resource_types.LIMITED_UNITS} <= units


@pytest.mark.parametrize(('boots_from_volume', 'disk_gb'), [(False, 25), (True, 5)])
def test_root_disk_counts_unless_it_is_a_volume(boots_from_volume: bool, disk_gb: int) -> None:
    found = resource_types.server_amounts(2, 512, 20, 5, boots_from_volume)
    assert found == {'servers': 1, 'vcpus': 2, 'memory_mb': 512, 'disk_gb': disk_gb}
    assert tuple(found) == resource_types.SERVER_UNITS


def test_volume_counts_its_size() -> None:
    found = resource_types.volume_amounts(10)
    assert found == {'volumes': 1, 'gigabytes': 10}
    assert tuple(found) == resource_types.VOLUME_UNITS
