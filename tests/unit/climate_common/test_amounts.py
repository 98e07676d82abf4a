# SPDX-License-Identifier: Apache-2.0
import pytest

from climate_common import amounts


def test_every_unit_but_disks_has_a_limit() -> None:
    units = {*amounts.SERVER_UNITS, *amounts.VOLUME_UNITS, amounts.STACKS, amounts.HOSTS}
    units |= {amounts.FLOATING_IPS, amounts.NETWORKS}
    assert units - {*amounts.LIMITED} == {amounts.DISK_GB}
    assert {*amounts.LIMITED} <= units


@pytest.mark.parametrize(('boots_from_volume', 'disk_gb'), [(False, 25), (True, 5)])
def test_root_disk_counts_unless_it_is_a_volume(boots_from_volume: bool, disk_gb: int) -> None:
    found = amounts.of_server(2, 512, 20, 5, boots_from_volume)
    assert found == {'servers': 1, 'vcpus': 2, 'memory_mb': 512, 'disk_gb': disk_gb}
    assert tuple(found) == amounts.SERVER_UNITS


def test_volume_counts_its_size() -> None:
    found = amounts.of_volume(10)
    assert found == {'volumes': 1, 'gigabytes': 10}
    assert tuple(found) == amounts.VOLUME_UNITS
