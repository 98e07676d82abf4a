# SPDX-License-Identifier: Apache-2.0
"""What the calendar is asked for a flavor, beside what nova asks placement for the same one."""

import pytest
from nova import objects
from nova.scheduler import utils

from climate_core import exceptions
from climate_core.cloud.placement import PLACEMENT
from climate_core.plugins import flavor_demand
from climate_core.plugins.pool_capacity import CommonHostCapacity
from climate_hosts import placement
from climate_hosts.plugins.capacity import CapacityPlugin
from climate_hosts.watch.refresh import HostRefresher
from tests.functional.nova.host_leases import HostLeasesTest

_CLASSES = {'vcpus': 'VCPU', 'memory_mb': 'MEMORY_MB', 'disk_gb': 'DISK_GB'}


def _flavor(extra_specs):
    return {
        'vcpus': 2,
        'ram': 1024,
        'disk': 10,
        'OS-FLV-EXT-DATA:ephemeral': 5,
        'swap': 1025,
        'extra_specs': extra_specs,
    }


def _request_of_nova(extra_specs):
    flavor = objects.Flavor(
        vcpus=2, memory_mb=1024, root_gb=10, ephemeral_gb=5, swap=1025, extra_specs=extra_specs
    )
    spec = objects.RequestSpec(
        flavor=flavor,
        is_bfv=False,
        image=objects.ImageMeta.from_dict({}),
        request_level_params=objects.RequestLevelParams(),
    )
    return utils.ResourceRequest.from_request_spec(spec)


@pytest.mark.parametrize(
    'extra_specs',
    [
        {},
        {'resources:CUSTOM_GOLD': '3'},
        {'resources:VCPU': '0', 'resources:MEMORY_MB': '0', 'resources:DISK_GB': '0'},
        {'resources:VCPU': '5', 'resources:DISK_GB': '7', 'resources:VGPU': '1'},
        {'resources:PCPU': '0'},
        {'resources1:VGPU': '1'},
        {'resources_a:VGPU': '1', 'resources_b:VGPU': '2', 'group_policy': 'none'},
        {'resources1:VCPU': '1'},
        {'resources1:VGPU': '0', 'resources1:CUSTOM_GOLD': '1'},
        {'trait:CUSTOM_A': 'required', 'trait:CUSTOM_B': 'forbidden'},
        {'hw:cpu_policy': 'shared', 'hw:cpu_sockets': '2', 'quota:vif_inbound_average': '10'},
        {'climate:reservation': '7b0e0b0c-7c5e-4f62-a3c0-3a3c8d1d0a11'},
        {'aggregate_instance_extra_specs:reservation': '7b0e0b0c-7c5e-4f62-a3c0-3a3c8d1d0a11'},
    ],
)
def test_the_same_is_asked_for_as_nova_asks_for(extra_specs):
    asked = _request_of_nova(extra_specs)
    demand = flavor_demand.read_demand(_flavor(extra_specs))
    assert {_CLASSES.get(name, name): each for name, each in demand.piece.items()} == (
        asked.merged_resources()
    )
    assert demand.required == asked.all_required_traits
    assert demand.forbidden == asked.get_request_group(None).forbidden_traits


@pytest.mark.parametrize(
    ('extra_specs', 'blamed', 'told'),
    [
        ({'resources:PCPU': '2'}, 'resources:PCPU', 'physical:host'),
        ({'resources:VGPU': '-1'}, 'resources:VGPU', '0 or more'),
        ({'resources:VGPU': 'one'}, 'resources:VGPU', '0 or more'),
        (
            {'resources1:VGPU': '1', 'resources1:SRIOV_NET_VF': '1'},
            'resources1:',
            'a separate group',
        ),
        ({'resources1:VGPU': '1', 'resources2:VGPU': '1'}, 'group_policy', '"none"'),
        (
            {'resources1:VGPU': '1', 'resources2:VGPU': '1', 'group_policy': 'isolate'},
            'group_policy',
            '"none"',
        ),
        ({'trait1:CUSTOM_A': 'required'}, 'trait1:CUSTOM_A', 'physical:host'),
        ({'trait:CUSTOM_A': 'preferred'}, 'trait:CUSTOM_A', 'forbidden'),
        ({'trait:custom': 'required'}, 'trait:custom', 'name of a trait'),
        ({'hw:cpu_policy': 'dedicated'}, 'hw:cpu_policy', 'NUMA'),
        ({'hw:cpu_policy': 'mixed'}, 'hw:cpu_policy', 'NUMA'),
        ({'hw:numa_nodes': '2'}, 'hw:numa_nodes', 'NUMA'),
        ({'hw:mem_page_size': 'large'}, 'hw:mem_page_size', 'NUMA'),
        ({'pci_passthrough:alias': 'a1:2'}, 'pci_passthrough:alias', 'devices'),
        ({'accel:device_profile': 'fpga'}, 'accel:device_profile', 'devices'),
        ({'hw:mem_encryption': 'true'}, 'hw:mem_encryption', 'devices'),
        ({'hw:tpm_version': '2.0'}, 'hw:tpm_version', 'physical:host'),
        ({'capabilities:cpu_info': 'x'}, 'capabilities:cpu_info', 'trait:CUSTOM_'),
        ({'aggregate_instance_extra_specs:ssd': 'true'}, 'aggregate_instance', 'trait:CUSTOM_'),
        ({'ssd': 'true'}, 'extra spec ssd', 'trait:CUSTOM_'),
    ],
)
def test_what_cannot_be_promised_is_refused_by_its_name(extra_specs, blamed, told):
    with pytest.raises(exceptions.BadRequest) as caught:
        flavor_demand.read_demand(_flavor(extra_specs))
    assert caught.value.field == 'flavor_id'
    assert blamed in str(caught.value)
    assert told in str(caught.value)


class TestFlavorsWithinStacks(HostLeasesTest):
    def test_private_flavor_is_known_by_its_name_and_by_its_id(self):
        """The preview of a stack names it as the template does."""
        conn, name = self.cloud.service(), 'private'
        sizes = {'vcpus': 2, 'ram': 512, 'disk': 1, 'os-flavor-access:is_public': False}
        self.admin_api.post_flavor({'flavor': {'id': name, 'name': name, **sizes}})
        listed = self.admin_api.api_get('/flavors/detail').body['flavors']
        assert name not in {each['id'] for each in listed}
        wanted = {'flavorRef': name, 'block_device_mapping_v2': []}
        found = CommonHostCapacity(conn).demand('one', {'server': wanted}, {})
        # Its root disk is a volume.
        assert found.amounts == {'VCPU': 2, 'MEMORY_MB': 512}

    def test_flavor_that_is_gone_is_named(self):
        with pytest.raises(exceptions.BadRequest, match='There is no flavor gone') as caught:
            CommonHostCapacity(self.cloud.service()).demand(
                'one', {'server': {'flavorRef': 'gone'}}, {}
            )
        assert caught.value.field == 'template'


class TestFlavorsOfCapacity(HostLeasesTest):
    TYPE = CapacityPlugin.resource_type

    def setUp(self):
        super().setUp()
        conn = self.cloud.service()
        for path in ('/resource_classes/CUSTOM_GOLD', '/traits/CUSTOM_FAST'):
            PLACEMENT.request(conn, 'PUT', path)
        path = f'/resource_providers/{self.provider("host2")}'
        traits = placement.ProviderPart(conn, f'{path}/traits')
        for found in traits:
            traits.put({'traits': [*found['traits'], 'CUSTOM_FAST']})
        self._give_gold({'total': 3})
        HostRefresher(self.conf, self.world.database, self.cloud).refresh()

    def _give_gold(self, inventory):
        path = f'/resource_providers/{self.provider("host2")}/inventories'
        part = placement.ProviderPart(self.cloud.service(), path)
        for found in part:
            part.put({'inventories': {**found['inventories'], 'CUSTOM_GOLD': inventory}})

    def _lease(self, amount, **extra_specs):
        flavor = self.flavor['id']
        specs = {name.replace('__', ':'): value for name, value in extra_specs.items()}
        self.admin_api.post_extra_spec(flavor, {'extra_specs': specs})
        lease = self.lease_hosts(flavor_id=flavor, amount=amount, name=f'{amount} {extra_specs}')
        return self.settled(lease)

    def test_host_has_the_trait_and_the_resources_that_the_flavor_asks_for(self):
        lease = self._lease(1, trait__CUSTOM_FAST='required', resources__CUSTOM_GOLD='2')
        assert self.hosts_of(lease) == {'host2'}
        assert self.inside(lease)[1] == 'host2'
        # One piece of gold is left, and a server takes two.
        with pytest.raises(exceptions.NotEnough):
            self._lease(2)

    def test_host_lacks_the_trait_that_the_flavor_forbids(self):
        lease = self._lease(1, trait__CUSTOM_FAST='forbidden')
        assert self.hosts_of(lease) == {'host1'}
        assert self.inside(lease)[1] == 'host1'

    def test_host_of_which_one_server_may_not_have_so_much_is_not_counted(self):
        """It has enough in all, but Placement gives none to one server that is as large."""
        for inventory, wanted in (
            ({'total': 4, 'max_unit': 1}, 2),
            ({'total': 5, 'min_unit': 2}, 1),
            ({'total': 6, 'step_size': 2}, 3),
        ):
            self._give_gold(inventory)
            HostRefresher(self.conf, self.world.database, self.cloud).refresh()
            assert self.candidates(f'resources=CUSTOM_GOLD:{wanted}') == set()
            with pytest.raises(exceptions.NotEnough) as caught:
                self._lease(1, resources__CUSTOM_GOLD=str(wanted))
            assert caught.value.available_from is None
        lease = self._lease(1, resources__CUSTOM_GOLD='4')
        assert self.inside(lease)[1] == 'host2'

    def test_flavor_that_asks_for_no_cpu_takes_none_of_the_calendar(self):
        lease = self._lease(3, resources__VCPU='0', resources__CUSTOM_GOLD='1')
        (reservation,) = lease.reservations
        assert reservation.amounts['vcpus'] == 3 * self.flavor['vcpus']
        demand = self.world.plugins[self.TYPE].read_demand(reservation)
        assert demand.piece == {
            'memory_mb': self.flavor['ram'],
            'disk_gb': self.flavor['disk'],
            'CUSTOM_GOLD': 1,
        }
        assert self.inside(lease)[1] == 'host2'
