# SPDX-License-Identifier: Apache-2.0
"""The second half: what a server was booted with is there when it starts."""

import base64

import fixtures
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from nova.conf import CONF
from nova.tests.functional.api import client

from climate_common import sealing
from nova_ext import saved_build_args
from tests.functional.nova.base import KEY
from tests.functional.nova.woken import WakeUpTest

VOLUMES = 'nova.volume.cinder.API'


class TestKept(WakeUpTest):
    def test_saved_arguments_are_encrypted_and_spawned_and_removed_at_the_start(self):
        server = self.reserve()
        assert self.spawned.calls == []
        self.wake_up(server)
        assert self.spawned.last['password'] == server['adminPass']
        assert self.spawned.last['image'].id == '155d900f-4e14-4e4c-a73d-069cbf4541e6'
        server = self.reserve(adminPass='correct horse')
        kept = self.instance(server).system_metadata
        rows = [key for key in kept if key.startswith(saved_build_args.PREFIX)]
        assert rows
        assert 'correct horse' not in str(kept)
        assert ''.join(kept[key] for key in sorted(rows)).startswith('box:')
        self.wake_up(server)
        assert self.spawned.last['password'] == 'correct horse'
        left = self.instance(server).system_metadata
        assert not [key for key in left if key.startswith('climate')]
        assert 'network_allocated' not in left

    def test_without_a_key_secrets_are_rejected_and_nothing_is_left(self):
        self.flags(stash_keys=[], group='climate')
        self.api.microversion = self.admin_api.microversion = '2.1'
        files = [{'path': '/etc/key', 'contents': base64.b64encode(b'correct horse').decode()}]
        for name, value in (('adminPass', 'correct horse'), ('personality', files)):
            with self.subTest(name):
                with pytest.raises(client.OpenStackApiException) as caught:
                    self.reserve(**{name: value}, networks=None)
                assert caught.value.response.status_code == 400
                assert f'server.{name}: ' in caught.value.response.text
                assert '[climate] stash_keys' in caught.value.response.text
        assert self.api.get_servers() == []
        assert self.lease_service.requests == []

    def test_without_a_key_a_server_starts_and_no_password_is_shown(self):
        self.flags(stash_keys=[], group='climate')
        server = self.reserve()
        assert 'adminPass' not in server
        assert 'password' not in str(self.instance(server).system_metadata)
        self.wake_up(server)
        self.assert_status(server, 'ACTIVE')
        assert self.spawned.last['password'] is None
        # A server without a reservation keeps its password.
        assert 'adminPass' in self.boot()

    def test_compute_without_its_public_key_rejects_files(self):
        self.api.microversion = self.admin_api.microversion = '2.1'
        files = [{'path': '/etc/key', 'contents': base64.b64encode(b'correct horse').decode()}]
        with fixtures.MonkeyPatch('nova_ext.saved_build_args.public_key', lambda _conf: None):
            server = self.reserve(personality=files, networks=None)
        found = self.assert_status(server, 'ERROR')
        assert 'stash_public_key of nova-compute on host1' in found['fault']['message']
        assert self.allocations(server) == {}

    def test_nova_compute_needs_no_key_that_opens(self):
        """Its nova.conf has the public key alone, which opens the password of no server."""
        public = sealing.public_key(KEY)
        self.flags(stash_public_key=public, group='climate')
        real, seen = self.compute.manager._do_build_and_run_instance, []

        def build(*args, **kwargs):
            self.flags(stash_keys=[], group='climate')
            try:
                seen.append(CONF.climate.stash_keys)
                return real(*args, **kwargs)
            finally:
                self.flags(stash_keys=[KEY], group='climate')

        self.compute.manager._do_build_and_run_instance = build
        mine, other = (self.reserve(adminPass='correct horse') for _ in range(2))
        with pytest.raises(saved_build_args.SavedArgsUnreadable):
            saved_build_args.load(self.instance(other).system_metadata, [public], other['id'])
        self.wake_up(mine)
        self.assert_status(mine, 'ACTIVE')
        assert self.spawned.last['password'] == 'correct horse'
        assert seen == [[], [], []]

    def test_arguments_of_another_server_do_not_open(self):
        mine, other = self.reserve(), self.reserve(adminPass='correct horse')
        stolen, instance = self.instance(other).system_metadata, self.instance(mine)
        saved_build_args.remove(instance.system_metadata)
        instance.system_metadata |= {
            key: value for key, value in stolen.items() if key.startswith(saved_build_args.PREFIX)
        }
        instance.save()
        self.wake_up(mine, status=503)
        self.assert_status(mine, 'RESERVED')
        assert self.spawned.calls == []

    def test_older_nova_api_does_not_start_a_server_without_its_password(self):
        server = self.reserve()
        with fixtures.MonkeyPatch('nova_ext.saved_build_args.load', lambda *_: {}):
            self.wake_up(server)
        found = self.assert_status(server, 'RESERVED')
        assert 'upgrade it before nova-compute' in found['fault']['message']
        self.wake_up(server)
        assert self.spawned.last['password'] == server['adminPass']

    def test_injected_files_are_spawned(self):
        self.api.microversion = self.admin_api.microversion = '2.1'
        contents = b'127.0.0.1 localhost\n' * 100
        personality = [{'path': '/etc/hosts', 'contents': base64.b64encode(contents).decode()}]
        server = self.reserve(personality=personality, networks=None)
        self.wake_up(server)
        assert self.spawned.last['files'] == [('/etc/hosts', contents)]

    def test_user_data_key_and_metadata_are_spawned(self):
        user_data = base64.b64encode(b'#!/bin/sh\n').decode()
        key = ed25519.Ed25519PrivateKey.generate().public_key()
        public = key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
        self.api.post_keypair({'keypair': {'name': 'k', 'type': 'ssh', 'public_key': public}})
        server = self.reserve(
            user_data=user_data,
            key_name='k',
            metadata={'a': 'b'},
            config_drive=True,
            description='mine',
            tags=['t'],
        )
        self.wake_up(server)
        instance = self.spawned.last['instance']
        assert (instance.user_data, instance.key_name) == (user_data, 'k')
        assert instance.keypairs.objects[0].name == 'k'
        assert instance.config_drive == 'True'
        found = self.assert_status(server, 'ACTIVE')
        assert (found['metadata'], found['description']) == ({'a': 'b'}, 'mine')
        assert found['tags'] == ['t']


class TestNetworks(WakeUpTest):
    def test_port_and_address_stay_until_the_delete(self):
        server = self.reserve(networks=self.network())
        before = self.assert_status(server, 'RESERVED')['addresses']
        (port,) = self.ports(server)
        assert before
        assert port['binding:host_id'] == 'host1'
        self.wake_up(server)
        assert self.assert_status(server, 'ACTIVE')['addresses'] == before
        assert [each['id'] for each in self.ports(server)] == [port['id']]
        assert [vif['id'] for vif in self.spawned.last['network_info']] == [port['id']]
        self.delete(server)
        assert self.ports(server) == []
        # One of the user stays.
        port = self.neutron.port_1
        server = self.reserve(networks=[{'port': port['id']}])
        self.wake_up(server)
        self.assert_status(server, 'ACTIVE')
        assert self.neutron.show_port(port['id'])['port']['device_id'] == server['id']
        self.delete(server)
        assert not self.neutron.show_port(port['id'])['port'].get('device_id')

    def test_tag_of_a_network_is_accepted_by_a_host_with_tags_only(self):
        capabilities = self.compute.manager.driver.capabilities
        tagged = [{'uuid': self.neutron.network_1['id'], 'tag': 'nic'}]
        capabilities['supports_device_tagging'] = False
        server = self.reserve(networks=tagged)
        assert 'tagging' in self.assert_status(server, 'ERROR')['fault']['message']
        assert self.lease_service.requests == []
        capabilities['supports_device_tagging'] = True
        server = self.reserve(networks=tagged)
        self.wake_up(server)
        self.assert_status(server, 'ACTIVE')
        (vif,) = self.spawned.last['network_info']
        assert vif['id'] == self.ports(server)[0]['id']


class TestVolumes(WakeUpTest):
    def boot_from(self, source, ident, **values):
        return self.reserve(
            imageRef='',
            block_device_mapping_v2=[
                {
                    'boot_index': 0,
                    'uuid': ident,
                    'source_type': source,
                    'destination_type': 'volume',
                    **values,
                }
            ],
        )

    def attachments(self, server):
        return self.cinder.attachment_ids_for_instance(server['id'])

    def check(self, server):
        self.assert_status(server, 'RESERVED')
        self.wake_up(server)
        self.assert_status(server, 'ACTIVE')
        (disk,) = self.spawned.last['block_device_info']['block_device_mapping']
        assert disk['connection_info']
        assert len(self.attachments(server)) == 1
        self.delete(server)
        assert self.attachments(server) == []

    def sources(self):
        """Return what a disk can be made from: the arguments of boot_from."""
        volume = self.cinder.IMAGE_BACKED_VOL
        yield 'volume', volume, {}
        yield 'image', '155d900f-4e14-4e4c-a73d-069cbf4541e6', {'volume_size': 1}
        snapshot = self.cinder.fake_create_snapshot_force(None, volume, 'name', 'description')
        yield 'snapshot', snapshot['id'], {'volume_size': 1}

    def test_each_source_is_attached_at_the_start(self):
        for source, ident, values in self.sources():
            with self.subTest(source=source):
                # A delete before the start frees the volume.
                server = self.boot_from(source, ident, **values)
                self.delete(server)
                assert self.attachments(server) == []
                server = self.boot_from(source, ident, **values)
                assert len(self.attachments(server)) == (source == 'volume')
                self.check(server)

    def test_failed_start_keeps_the_volume_and_the_next_takes_it(self):
        for source, ident, values in self.sources():
            with self.subTest(source=source):
                server = self.boot_from(source, ident, **values)
                self.spawned.fail_with = RuntimeError('the array is on fire')
                self.wake_up(server)
                self.assert_status(server, 'RESERVED')
                assert len(self.attachments(server)) == 1
                self.spawned.fail_with = None
                self.check(server)
