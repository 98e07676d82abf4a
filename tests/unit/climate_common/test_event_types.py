# SPDX-License-Identifier: Apache-2.0
import pytest

from climate_common import event_types


@pytest.mark.parametrize(
    ('event_type', 'of_user', 'before_end'),
    [
        ('start_lease', False, False),
        ('before_end_lease', False, True),
        ('half_time', True, False),
    ],
)
def test_type_is_of_a_user_or_of_the_service(
    event_type: str, of_user: bool, before_end: bool
) -> None:
    assert event_types.is_user_event(event_type) is of_user
    assert event_types.is_before_end(event_type) is before_end


def test_users_can_give_the_event_before_the_end_alone() -> None:
    assert {'before_end_lease'} == event_types.ALL - event_types.RESERVED_TYPES
