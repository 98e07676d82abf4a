# SPDX-License-Identifier: Apache-2.0
"""The templates of the user's guide, as they are."""

import pathlib

from tests.functional.heat.reserved import ReservedTest
from tests.functional.heat.templates import stack_level

TEMPLATES = pathlib.Path(__file__).resolve().parents[3] / 'doc' / 'source' / 'user' / 'templates'


class TestTemplates(ReservedTest):
    def made(self, name, environment=None, **parameters):
        template = (TEMPLATES / f'{name}.yaml').read_text()
        stack = self.create(
            template, environment=environment, parameters={'flavor': 'm1', **parameters}
        )
        self.assert_stack(stack, 'CREATE_COMPLETE')
        return stack

    def network(self):
        """Make one that is there before; gives its id."""
        net = {'heat_template_version': '2021-04-16'}
        net['resources'] = {'net': {'type': 'OS::Neutron::Net'}}
        (made,) = self.ids(self.create(net, name='before'), 'net')
        return made

    def test_working_group(self):
        stack = self.made('working-group', stack_level(self.lease))
        assert self.cloud.nova.statuses() == ['RESERVED'] * 3
        assert self.cloud.cinder.statuses() == ['lease-reserved']
        before = self.held()
        # Nothing new is made at the start: what its members tell each other was known before.
        self.cloud.nova.full = self.cloud.cinder.full = True
        self.start(stack)
        assert self.cloud.nova.statuses() == ['ACTIVE'] * 3
        assert self.held() == before == set(self.wakes())

    def test_with_lease(self):
        stack = self.made(
            'with-lease',
            start='2098-12-01 09:00',
            end='2098-12-01 18:00',
            network=self.network(),
        )
        assert self.cloud.nova.statuses() == ['RESERVED']
        assert self.outputs(stack)['lease_status'] == 'PENDING'

    def test_autoscaling(self):
        stack = self.made('autoscaling', stack_level(self.lease), network=self.network())
        assert self.cloud.nova.statuses() == ['RESERVED'] * 3
        self.start(stack)
        assert sorted(self.cloud.nova.statuses()) == ['ACTIVE', 'RESERVED', 'RESERVED']
        assert self.outputs(stack)['size'] == 1
