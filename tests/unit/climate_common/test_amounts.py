# SPDX-License-Identifier: Apache-2.0
from climate_common import amounts


def test_every_unit_but_disks_has_a_limit() -> None:
    units = {*amounts.SERVER_UNITS, *amounts.VOLUME_UNITS, *amounts.STACK_UNITS}
    assert units - {*amounts.LIMITED} == {amounts.DISK_GB}
    assert {*amounts.LIMITED} <= units
