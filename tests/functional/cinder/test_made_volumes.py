# SPDX-License-Identifier: Apache-2.0
"""By what the owner finds a volume that the lease service asked Cinder for."""

from urllib.parse import quote

from cinder.db import api as db

from tests.functional.cinder.base import CinderTest
from tests.functional.cinder.users import ALICE, BOB

KEY = 'climate_reservation'
RESERVATION = 'b5a3a0fd-4b62-4dd5-8a25-5d5c4d6cbb01'


class TestFind(CinderTest):
    def test_metadata_is_found_before_the_lease_service_is_asked(self):
        seen = []
        self.lease_service.on_post = lambda _: seen.append(self.find())
        volume = self.reserve(metadata={KEY: RESERVATION})
        assert seen == [[volume['id']]]
        assert self.find(user=BOB) == []

    def test_owner_can_take_away_the_metadata_and_it_is_not_found(self):
        volume = self.reserve(metadata={KEY: RESERVATION})
        self.request('DELETE', f'/volumes/{volume["id"]}/metadata/{KEY}', status=200)
        assert self.find() == []

    def test_owner_finds_by_a_marker_that_the_owner_does_not_see_and_cannot_change(self):
        volume = self.reserve()
        db.volume_admin_metadata_update(self.ctxt, volume['id'], {KEY: RESERVATION}, False)
        assert self.show(volume)['metadata'] == {}
        self.request('DELETE', f'/volumes/{volume["id"]}/metadata/{KEY}', status=404)
        assert self.find() == [volume['id']]
        assert self.find(user=BOB) == []

    def test_wake_up_takes_the_marker_away(self):
        volume = self.reserve()
        db.volume_admin_metadata_update(self.ctxt, volume['id'], {KEY: RESERVATION}, False)
        self.wake_up(volume)
        assert self.find() == []

    def test_volume_without_room_is_found_in_error_and_on_the_quota(self):
        volume = self.reserve(size=999, metadata={KEY: RESERVATION})
        self.assert_status(volume, 'error')
        assert self.quota_usage() == (1, 999)
        assert self.find() == [volume['id']]

    def test_hint_says_for_which_reservation_it_is(self):
        self.reserve()
        join = {'reserved': 'True', 'lease_id': self.lease_service.lease['id'], KEY: RESERVATION}
        self.volume_create(join)
        assert self.lease_service.requests[-1].json['made_for'] == RESERVATION

    def find(self, user=ALICE):
        wanted = quote(str({KEY: RESERVATION}))
        return [each['id'] for each in self.get(f'/volumes?metadata={wanted}', user)['volumes']]
