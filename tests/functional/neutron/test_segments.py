# SPDX-License-Identifier: Apache-2.0
"""Which segments can be registered with the real Neutron."""

from typing import ClassVar

import pytest
from neutron_lib.plugins import directory

from climate_core import exceptions
from climate_networks import operations
from tests.conformance.network_world import FIRST, PHYSICAL, SEGMENTS, Networks
from tests.functional.neutron.base import NeutronTest

#: The project of the service.
SERVICE = 'service-id'


class TestUnknownSegments(NeutronTest):
    world: Networks

    def make_world(self, url):
        return Networks(self.fake, url, self.connect)

    def refused(self, field, **values):
        """Try to set a segment apart; return why that is refused."""
        with pytest.raises(exceptions.BadRequest) as caught:
            self.world.register(**values)
        assert caught.value.field == field
        assert [each['name'] for each in self.request('GET', '/networks')['networks']] == [
            'public'
        ]
        return caught.value.message

    def test_what_neutron_does_not_know_is_refused_and_nothing_is_made(self):
        told = self.refused('physical_network', physical_network='physnet9', segment_id=FIRST)
        assert told.startswith('physical_network: Neutron has no physical network physnet9. Its')
        assert 'network_vlan_ranges' in told
        del directory.get_plugin().type_manager.drivers['gre']
        told = self.refused(
            'network_type', network_type='gre', physical_network=None, segment_id=5
        )
        assert told.startswith('network_type: Neutron has no network type gre. Its [ml2] type_')

    def test_what_neutron_knows_is_found_out_with_the_roles_of_climate(self):
        self.neutron.roles = ['climate', 'service']
        self.refused('physical_network', physical_network='physnet9', segment_id=FIRST)
        assert self.world.register(segment_id=300)
        assert self.request('GET', '/networks?name=none')['networks'] == []

    def test_ranges_are_not_seen_without_the_plugin(self):
        assert self.world.register(segment_id=150)
        assert (
            operations.SegmentCheck().find_problems(
                self.world.engine.database, self.world.cloud.service()
            )
            == []
        )


class TestRanges(TestUnknownSegments):
    """With the plugin Neutron shows the range of its configuration, and those that were made."""

    service_plugins: ClassVar = [*NeutronTest.service_plugins, 'network_segment_range']

    def range(self, first, last, **values):
        """Make a network segment range, as an administrator can."""
        body = {'name': 'r', 'network_type': 'vlan', 'physical_network': PHYSICAL, **values}
        body |= {'minimum': first, 'maximum': last}
        path = '/network-segment-ranges'
        return self.request('POST', path, {'network_segment_range': body}, 201)

    def test_ranges_are_not_seen_without_the_plugin(self):
        """They are seen with it, see the other tests."""

    def test_segment_that_neutron_chooses_is_refused_unless_it_is_for_the_service(self):
        for roles in (['admin'], ['climate', 'service']):
            self.neutron.roles = roles
            told = self.refused('segment_id', segment_id=150)
            assert '100-199' in told
            assert SERVICE in told
            assert '100-199' in self.refused('segment_range', segment_range='99-100')
        self.range(150, 159, shared=False, project_id=SERVICE)
        assert self.world.register(segment_range='150-151')
        self.range(400, 499, shared=False, project_id='demo-id')
        assert '400-499' in self.refused('segment_id', segment_id=400)

    def test_check_tells_which_segments_neutron_chooses_by_now(self):
        conn, database = self.world.cloud.service(), self.world.engine.database
        assert operations.SegmentCheck().find_problems(database, conn) == []
        self.range(FIRST, 299, shared=True)
        for roles in (['admin'], ['climate', 'service']):
            self.neutron.roles = roles
            told = operations.SegmentCheck().find_problems(database, conn)
            assert [each.split()[1] for each in told] == [str(each) for each in SEGMENTS]
