# SPDX-License-Identifier: Apache-2.0
"""What can be done with leases: buttons, and the forms for another end."""

import datetime
from typing import Any

from django import urls

from climateclient import exceptions
from climateclient.calendar import Bar
from climateclient.models import Lease
from tests.dashboard.pages import NOW, PageTest, lease, refused

INDEX = 'horizon:project:climate_leases:index'
DETAIL = 'horizon:project:climate_leases:detail'
EXTEND = 'horizon:project:climate_leases:extend'
SHORTEN = 'horizon:project:climate_leases:shorten'
HOUR = datetime.timedelta(hours=1)
BUTTONS = ('Create Lease', 'Extend', 'Shorten', 'End Lease')


def ready() -> Lease:
    """Make a lease that waits for its user."""
    events = [
        {'id': 'e', 'event_type': 'ready_to_start', 'time': NOW.isoformat(), 'status': 'DONE'}
    ]
    return lease(status='PENDING', start_policy='manual', events=events)


class ButtonsTest(PageTest):
    def act(self, action: str) -> Any:
        url = urls.reverse(INDEX)
        return self.client.post(url, {'action': f'leases__{action}__{lease().id}'}, follow=True)

    def test_member_sees_what_can_be_done(self) -> None:
        self.leases.list.return_value = [lease()]
        text = self.text(INDEX)
        assert all(button in text for button in BUTTONS)
        assert 'Start Lease' not in text

    def test_reader_sees_no_buttons(self) -> None:
        self._log_in('reader')
        self.leases.list.return_value = [lease()]
        self.leases.get.return_value = lease()
        for text in (self.text(INDEX), self.text(DETAIL, 'x', tab='lease__reservations')):
            assert 'lease1' in text
            assert not [button for button in (*BUTTONS, 'Release') if button in text]

    def test_lease_that_waits_or_has_failed_can_be_ended(self) -> None:
        for status in ('WAITING', 'IN_PROGRESS', 'ERROR', 'TIMEDOUT'):
            self.leases.get.return_value = lease(status=status)
            assert 'End Lease' in self.text(DETAIL, 'x')

    def test_lease_that_is_over_can_only_be_seen(self) -> None:
        self.leases.get.return_value = lease(status='TERMINATED')
        text = self.text(DETAIL, 'x', tab='lease__reservations')
        assert not [button for button in BUTTONS if button in text]

    def test_end_says_why_it_was_refused(self) -> None:
        self.leases.list.return_value = [lease()]
        self.act('end')
        self.leases.end.assert_called_once_with(lease().id)
        self.leases.end.side_effect = refused('It is over.', kind=exceptions.Conflict)
        assert 'lease1: It is over.\n' in self.act('end').content.decode()

    def test_lease_that_waits_for_its_user_is_started(self) -> None:
        self.leases.list.return_value = [ready()]
        assert 'Start Lease' in self.text(INDEX)
        self.act('start')
        self.leases.start.assert_called_once_with(lease().id)

    def test_buttons_of_a_lease_work_though_the_list_begins_with_others(self) -> None:
        self.leases.list.return_value = [lease(id='other')]
        self.leases.get.return_value = ready()
        self.act('start')
        self.leases.start.assert_called_once_with(lease().id)
        self.act('end')
        self.leases.end.assert_called_once_with(lease().id)

    def test_lease_that_is_not_there_is_not_ended(self) -> None:
        self.leases.list.return_value = []
        self.leases.get.side_effect = refused('not found', kind=exceptions.NotFound)
        assert 'cannot be changed: not found' in self.act('end').content.decode()
        assert not self.leases.end.called

    def test_resource_that_failed_can_be_given_back(self) -> None:
        failed = {'id': 'r1', 'resource_type': 'virtual:instance', 'status': 'error'}
        self.leases.get.return_value = lease(status='ERROR', reservations=[failed])
        assert 'Release' in self.text(DETAIL, 'x', tab='lease__reservations')

    def test_one_resource_is_given_back(self) -> None:
        self.leases.get.return_value = lease()
        url = urls.reverse(DETAIL, args=['x'])
        self.client.post(url, {'action': 'reservations__release__r1'})
        self.leases.remove_reservation.assert_called_once_with('x', 'r1')


class EndFormsTest(PageTest):
    def setUp(self) -> None:
        super().setUp()
        self.leases.get.return_value = lease()

    def send(self, name: str, **given: str) -> Any:
        values = {'by': '', 'end': '', 'generation': '7'}
        return self.client.post(urls.reverse(name, args=['x']), {**values, **given})

    def test_end_that_would_be_too_late_is_refused_in_the_form(self) -> None:
        last = datetime.datetime.max.isoformat()
        self.leases.get.return_value = lease(end_date=last)
        by, end = {'by': '1h'}, {'end': last}
        for name, given in ((EXTEND, by), (EXTEND, end), (SHORTEN, by)):
            assert '9000-01-01' in self.send(name, **given).content.decode()
        assert not self.leases.update.called

    def test_lease_is_extended_if_it_is_still_as_it_was_seen(self) -> None:
        assert self.send(EXTEND, by='2h', generation='6').status_code == 302
        self.leases.update.assert_called_once_with(lease().id, end=NOW + 5 * HOUR, generation=6)

    def test_form_says_until_when_the_lease_can_be_extended(self) -> None:
        bars = self.client_of_leases.calendar.bars
        self.text(EXTEND, 'x')
        # What others have is in nobody's way who has a server.
        assert not bars.called
        hosts = [{'id': 'r1', 'resource_type': 'physical:host', 'status': 'active'}]
        self.leases.get.return_value = lease(reservations=hosts)
        found = [
            Bar('l', 'lease1', '1', 'ACTIVE', 'r', NOW, NOW, free_until=each)
            for each in (NOW + 7 * HOUR, None, NOW + 5 * HOUR)
        ]
        bars.return_value = found
        text = self.text(EXTEND, 'x')
        assert 'Can be extended until' in text
        assert f'<dd>{NOW + 5 * HOUR:%Y-%m-%d %H:%M} UTC</dd>' in text
        assert bars.call_args.kwargs['lease_id'] == lease().id
        assert 'Can be extended' not in self.text(SHORTEN, 'x')
        bars.side_effect = refused('not now')
        assert 'Can be extended' not in self.text(EXTEND, 'x')

    def test_date_picker_of_horizon_keeps_away_from_the_end(self) -> None:
        for name in (EXTEND, SHORTEN):
            text = self.text(name, 'x')
            assert 'id="id_end"' not in text
            assert 'id="climate_end"' in text
            assert 'for="climate_end"' in text
            assert 'type="datetime-local" name="end"' in text
            assert 'New end (UTC)' in text

    def test_lease_is_extended_in_part(self) -> None:
        self.send(EXTEND, by='2h', partial='on')
        assert self.leases.update.call_args.kwargs['partial'] is True

    def test_lease_is_shortened(self) -> None:
        self.send(SHORTEN, by='1h')
        assert self.leases.update.call_args.kwargs['end'] == NOW + 2 * HOUR

    def test_end_that_goes_the_wrong_way_is_refused_before_it_is_sent(self) -> None:
        for name, way in ((EXTEND, 'later'), (SHORTEN, 'earlier')):
            by = NOW + (1 if name == EXTEND else 9) * HOUR
            text = self.send(name, end=f'{by:%Y-%m-%d %H:%M}').content.decode()
            assert f'The new end must be {way} than' in text
        assert not self.leases.update.called

    def test_refusal_is_told_in_the_form(self) -> None:
        message = 'The lease was changed concurrently.'
        self.leases.update.side_effect = refused(message, kind=exceptions.Conflict)
        assert message in self.send(EXTEND, by='2h').content.decode()

    def test_form_opens_in_a_window_of_the_page(self) -> None:
        url = urls.reverse(EXTEND, args=['x'])
        response = self.client.get(url, HTTP_X_REQUESTED_WITH='XMLHttpRequest')
        text = response.content.decode()
        assert 'name="generation" value="7"' in text
        assert '<html' not in text

    def test_reader_gets_no_form(self) -> None:
        self._log_in('reader')
        assert self.send(EXTEND, by='2h').status_code == 403
        assert not self.leases.update.called
