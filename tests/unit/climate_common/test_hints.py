# SPDX-License-Identifier: Apache-2.0
import pytest

from climate_common import hints


@pytest.mark.parametrize(
    ('key', 'sent'),
    [
        ('start', 'start_date'),
        ('end_date', 'end_date'),
        ('length', 'duration'),
        ('before_end_notification', 'before_end_date'),
        ('on_end', 'on_end'),
    ],
)
def test_key_is_sent_by_its_first_name(key: str, sent: str) -> None:
    assert hints.KEYS[key] == sent


def test_every_first_name_is_a_key_of_its_own() -> None:
    assert all(hints.KEYS[key] == key for key in hints.KEYS.values())
    assert all(hints.EVENT_KEYS[key] == key for key in hints.EVENT_KEYS.values())
