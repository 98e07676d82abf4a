# SPDX-License-Identifier: Apache-2.0
"""The templates of the user's guide, as they are, and its table of updates."""

import pathlib
import re

from tests.functional.heat import addresses
from tests.functional.heat.reserved import ReservedTest
from tests.support.stacks import NET, stack, stack_level

HERE = pathlib.Path(__file__).parent
GUIDE = pathlib.Path(__file__).resolve().parents[3] / 'doc' / 'source' / 'user'
TEMPLATES = GUIDE / 'templates'


def test_every_update_in_the_guide_has_its_tests():
    """Each cell of the table has a test; one of another row names no row."""
    text = (GUIDE / 'stacks-reference.rst').read_text()
    _, head, rows, *_ = re.split(
        r'^=+ =+ =+\n', text[text.index('The update   ') - 200 :], flags=re.M
    )
    assert head.split() == ['The', 'update', 'before', 'the', 'start', 'after', 'the', 'start']
    names = {row[:32].strip() for row in rows.splitlines()} - {''}
    found = {
        cell
        for module in HERE.glob('test_*.py')
        for cell in re.findall(r"@guide_row\('(.+)', '(before|after)'\)", module.read_text())
    }
    assert found == {(name, cell) for name in names for cell in ('before', 'after')}


class TestTemplates(ReservedTest):
    def made(self, name, environment=None, **parameters):
        template = (TEMPLATES / f'{name}.yaml').read_text()
        parameters = {'flavor': 'm1', **parameters}
        return self.create(template, environment=environment, parameters=parameters)

    def network(self):
        """Make one that is there before; gives its id."""
        return self.ids(self.create(stack({'net': NET}), name='before'), 'net')[0]

    def test_working_group_exchanges_what_is_known_before_the_start(self):
        stack = self.made('working-group', stack_level(self.lease))
        assert self.cloud.nova.statuses() == ['RESERVED'] * 3
        assert self.cloud.cinder.statuses() == ['lease-reserved']
        before = self.held()
        # Nothing new is made at the start: what its members tell each other was known before.
        self.cloud.nova.full = self.cloud.cinder.full = True
        self.start(stack)
        assert self.cloud.nova.statuses() == ['ACTIVE'] * 3
        assert self.held() == before == set(self.wakes())

    def test_stack_with_its_lease_is_reserved(self):
        stack = self.made(
            'with-lease',
            start='2098-12-01 09:00',
            end='2098-12-01 18:00',
            network=self.network(),
        )
        assert self.cloud.nova.statuses() == ['RESERVED']
        assert self.outputs(stack)['lease_status'] == 'PENDING'

    def test_address_of_the_lease_is_used_before_it_exists(self):
        addresses.register(self.leases.world.database, '203.0.113.20')
        public = {'id': addresses.NETWORK, 'name': 'public', 'subnets': []}
        self.cloud.neutron.records['networks'] = {public['id']: public}
        stack = self.made(
            'public-address',
            start='2098-12-01 09:00',
            end='2098-12-01 18:00',
            public=addresses.NETWORK,
        )
        assert self.cloud.nova.statuses() == ['RESERVED']
        assert self.outputs(stack) == {'address': '203.0.113.20'}
        (self.lease,) = self.ids(stack, 'lease')
        self.start(stack)
        (made,) = self.cloud.neutron.records['floatingips'].values()
        assert [made['port_id']] == self.ids(stack, 'port')

    def test_autoscaling_group_reserves_its_maximum(self):
        stack = self.made('autoscaling', stack_level(self.lease), network=self.network())
        assert self.cloud.nova.statuses() == ['RESERVED'] * 3
        self.start(stack)
        assert sorted(self.cloud.nova.statuses()) == ['ACTIVE', 'RESERVED', 'RESERVED']
        assert self.outputs(stack)['size'] == 1
