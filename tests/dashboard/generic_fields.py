# SPDX-License-Identifier: Apache-2.0
"""Generic fields in the form of a new lease, and on its page."""

from tests.dashboard.pages import FormTest, lease
from tests.support.generic_fields import FIRST, ROWS, SECOND

DETAIL = 'horizon:project:climate_leases:detail'


class GenericFieldsTest(FormTest):
    def test_form_sends_them(self) -> None:
        self.leases.create.return_value = lease()
        self.send(**{name: str(value) for name, value in FIRST.items()})
        assert {name: self.made()[name] for name in ROWS} == FIRST

    def test_form_leaves_out_what_is_empty(self) -> None:
        self.leases.create.return_value = lease()
        self.send(description='', colour='', cost_center='0')
        made = self.made()
        assert made.keys() & ROWS.keys() == {'cost_center', 'billable'}
        assert made['cost_center'] == SECOND['cost_center']
        assert made['billable'] is False

    def test_page_shows_them(self) -> None:
        self.leases.get.return_value = lease(**FIRST)
        text = self.text(DETAIL, 'l1')
        for title, value in (('Description', 'for tests'), ('Cost center', '7')):
            assert f'<dt>{title}</dt>' in text
            assert f'<dd>{value}</dd>' in text
