# SPDX-License-Identifier: Apache-2.0
"""What a template says of the reservations of a lease."""

import pytest

from heat_ext.lease import reservations

OWN = reservations.stack_item('s', 'delete')
FIRST = {'resource_type': 'virtual:instance', 'resource_id': 'a'}
SECOND = {'resource_type': 'virtual:moon', 'resource_id': 'b'}


@pytest.mark.parametrize(
    ('sent', 'reason', 'told'),
    [
        ([OWN, FIRST, SECOND], 'reservations[2].on_end: no', 'reservations[1].on_end: no'),
        ([SECOND], 'reservations[0].resource_type: no', 'reservations[1].resource_type: no'),
        ([OWN, FIRST], 'reservations[1]: no: why', 'reservations[0]: no: why'),
        ([OWN, FIRST], 'reservations[0].resource_id: it is reserved', 'it is reserved'),
        ([{'id': 'x', 'on_end': 'stop'}], 'reservations[0].on_end: no', 'no'),
        ([], 'reservations[7].on_end: no', 'no'),
        ([OWN, FIRST], 'end_date: no', 'end_date: no'),
        ([OWN, FIRST], 'no', 'no'),
    ],
)  # fmt: skip
def test_the_item_of_the_template_is_blamed(sent, reason, told):
    assert reservations.locate_error(reason, sent, [FIRST, SECOND]) == told
