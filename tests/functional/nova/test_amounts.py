# SPDX-License-Identifier: Apache-2.0
"""What nova-compute says a server holds is what the lease service counts when it looks itself."""

import fixtures
from keystoneauth1 import token_endpoint

from climate_core.plugins import server as plugins_server
from tests.functional.lease_service import refusal
from tests.functional.nova.base import NovaTest
from tests.functional.nova.reserved_volumes import LEASE, ORDINARY, VolumesTest, disk

#: Whose answer has the hints of a server and its flavor, see climate_core/cloud/servers.py.
LOOK = '2.100'


def with_service_token(test):
    """Write into the configuration what an operator writes into nova.conf."""
    test.flags(send_service_user_token=True, group='service_user')
    own = token_endpoint.Token('http://nowhere', 'token-of-nova')
    test.useFixture(
        fixtures.MonkeyPatch('nova.service_auth.get_service_auth_plugin', lambda group: own)
    )


class Amounts:
    """Mixed into a test case."""

    def setUp(self):
        super().setUp()
        with_service_token(self)
        self.flavor = {'id': self._create_flavor(vcpu=1, memory_mb=640, disk=4, ephemeral=3)}

    def assert_told(self, server):
        """Check what was sent when the server joined against what there is to be seen."""
        self.assert_status(server, 'RESERVED')
        request = self.lease_service.requests[-1]
        assert request.headers['X-Service-Token'] == 'token-of-nova'
        (told,) = [
            each for each in request.json.get('reservations', [request.json]) if 'amounts' in each
        ]
        assert told['resource_id'] == server['id']
        self.api.microversion = LOOK
        shown = self.api.get_server(server['id'])
        assert told['amounts'] == plugins_server.ServerPlugin._amounts(shown)
        lease_id = request.json.get('id') or request.path.split('/')[3]
        for wanted in (lease_id, server['id']):
            is_named = wanted == lease_id
            assert plugins_server.ServerPlugin._waits_for(None, shown, wanted) is is_named
        return told['amounts']


class TestServers(Amounts, NovaTest):
    def test_server_from_an_image_holds_its_flavor(self):
        told = self.assert_told(self.reserve())
        assert told == {'servers': 1, 'vcpus': 1, 'memory_mb': 640, 'disk_gb': 7}

    def test_servers_that_join_hold_one_flavor_each(self):
        """Nova is asked for several at once: each joins by itself."""
        self.reserve(min_count=2, max_count=2)
        posts = [each for each in self.lease_service.requests if each.method == 'POST']
        told = [each['amounts'] for post in posts for each in post.json['reservations']]
        assert [each['servers'] for each in told] == [1, 1]

    def test_server_that_joins_holds_its_flavor(self):
        self.reserve()
        join = {'reserved': 'True', 'lease_id': self.lease_service.lease['id']}
        self.assert_told(self.boot(join))

    def test_lease_service_that_refuses_amounts_is_asked_without(self):
        """The service user has not the role service: the server is reserved all the same."""

        def refuse(request):
            told = 'amounts' in request.json['reservations'][0]
            answer = refusal(400, 'no')
            answer.json = {**answer.json, 'field': 'reservations[0].amounts'}
            self.lease_service.answer = answer if told else None

        self.lease_service.on_post = refuse
        self.assert_status(self.reserve(), 'RESERVED')
        (reservation,) = self.lease_service.lease['reservations']
        assert 'amounts' not in reservation


class TestVolumes(Amounts, VolumesTest):
    def test_server_holds_a_root_disk_only_on_the_host(self):
        image = '155d900f-4e14-4e4c-a73d-069cbf4541e6'
        made = disk(image, 0, source_type='image', volume_size=2, delete_on_termination=True)
        for given, size in ((disk(ORDINARY), 7), (made, 3), (disk(ORDINARY, 0), 3)):
            with self.subTest(disk=given):
                self.api.microversion = self.microversion
                server = self.join(given, hints={'lease_id': LEASE})
                assert self.assert_told(server)['disk_gb'] == size
                self.delete(server)
