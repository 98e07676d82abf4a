# SPDX-License-Identifier: Apache-2.0
"""Amounts with units, as pages show them and forms read them."""

import pytest
from django.utils import translation

from climate_dashboard import amounts


@pytest.mark.parametrize(
    ('name', 'number', 'shown'),
    [
        ('memory_mb', 512, '512 MiB'),
        ('memory_mb', 65536, '64 GiB'),
        ('memory_mb', 1_200_000, '1.1 TiB'),
        ('memory_mb', 1023, '1023 MiB'),
        ('memory_mb', 0, '0 MiB'),
        ('reserved_memory_mb', 2000, '1.9 GiB'),
        ('disk_gb', 40, '40 GiB'),
        ('reserved_gigabytes', 1536, '1.5 TiB'),
        ('gigabytes', 1024**4, '1048576 PiB'),
        ('vcpus', 1_200_000, '1200000'),
        ('reserved_memory_mb', -1, '-1'),
        ('memory_mb', None, '-'),
    ],
)
def test_amount_is_shown_in_the_largest_unit(name: str, number: int | None, shown: str) -> None:
    with translation.override('en'):
        assert amounts.show(name, number) == shown


def test_amount_has_the_decimal_sign_of_the_language() -> None:
    with translation.override('de'):
        assert amounts.show('memory_mb', 1536) == '1,5 GiB'


@pytest.mark.parametrize(
    ('entered', 'read'),
    [
        ('memory_mb>=64GiB', 'memory_mb>=65536'),
        ('vcpus>=16, memory_mb >= 2 tib', 'vcpus>=16, memory_mb >= 2097152'),
        ('local_gb>1TiB,local_gb<3TiB', 'local_gb>1024,local_gb<3072'),
        ('memory_mb>=512MiB', 'memory_mb>=512'),
        ('memory_mb>=65536', 'memory_mb>=65536'),
        # No whole number of GiB, and a property of the operator's own.
        ('local_gb>=512MiB', 'local_gb>=512MiB'),
        ('nvme>=2TiB', 'nvme>=2TiB'),
    ],
)
def test_conditions_are_read_with_units(entered: str, read: str) -> None:
    assert amounts.read_conditions(entered) == read
