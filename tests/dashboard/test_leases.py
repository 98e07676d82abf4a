# SPDX-License-Identifier: Apache-2.0
"""The panel Leases: the list, and one lease."""

import datetime

from django import urls
from django.test import override_settings
from django.utils import timezone

from climateclient import exceptions
from climateclient.models import HistoryEntry
from tests.dashboard.pages import NOW, SERVER_ID, PageTest, lease, refused

INDEX = 'horizon:project:climate_leases:index'
DETAIL = 'horizon:project:climate_leases:detail'


class ListTest(PageTest):
    def test_list_shows_leases_of_the_project_with_reasons(self) -> None:
        self.leases.list.return_value = [lease(status='ERROR', status_reason='no <room>')]
        text = self.text(INDEX)
        assert 'lease1' in text
        assert 'no &lt;room&gt;' in text
        assert '1 server' in text
        asked = self.leases.list.call_args.kwargs
        assert asked['project_id'] == self.tenant.id
        assert asked['sort'] == 'created_at:desc'

    def test_wide_list_can_be_moved_by_the_keyboard(self) -> None:
        self.leases.list.return_value = []
        part = '<div class="climate-page" role="region" aria-label="Leases" tabindex="0">'
        assert part in self.text(INDEX)

    def test_list_has_a_title(self) -> None:
        self.leases.list.return_value = []
        assert '<title>Leases' in self.text(INDEX)

    def test_lease_that_waits_says_its_place_in_the_queue(self) -> None:
        waiting = lease(status='WAITING', queue_position=3, status_reason='too few hosts')
        self.leases.list.return_value = [waiting]
        text = self.text(INDEX)
        assert 'Waiting<div' in text
        assert 'Queued: position 3. too few hosts' in text
        assert 'End Lease' in text

    def test_row_of_a_lease_that_timed_out_is_that_of_an_error(self) -> None:
        self.leases.list.return_value = [lease(status='TIMEDOUT')]
        text = self.text(INDEX)
        assert 'Timed out' in text
        assert 'status_down' in text

    def test_refused_list_says_why(self) -> None:
        self.leases.list.side_effect = refused('must be one of these', 'status')
        text = self.text(INDEX)
        assert 'must be one of these' in text

    def test_filter_is_sent_to_the_service(self) -> None:
        self.leases.list.return_value = []
        url = urls.reverse(INDEX)
        sent = {'leases__filter__q': 'active', 'leases__filter__q_field': 'status'}
        self.client.post(url, sent)
        self.client.get(url)
        assert self.leases.list.call_args.kwargs['status'] == 'ACTIVE'

    def test_pages_go_on_and_back(self) -> None:
        many = [lease(id=f'lease-{number}', name=f'n{number}') for number in range(3)]
        self.leases.list.return_value = many
        self.client.cookies['API_RESULT_PAGE_SIZE'] = '2'
        text = self.text(INDEX)
        assert '?marker=lease-1' in text
        assert 'prev_marker' not in text
        self.leases.list.return_value = many[1::-1]
        text = self.text(INDEX, prev_marker='lease-2')
        assert self.leases.list.call_args.kwargs['sort'] == 'created_at:asc'
        assert text.index('>n0<') < text.index('>n1<')
        assert '?marker=lease-1' in text

    def test_row_is_asked_for_again_while_it_changes(self) -> None:
        self.leases.list.return_value = [lease(status='STARTING')]
        assert 'class="ajax-update warning"' in self.text(INDEX)
        self.leases.list.return_value = [lease()]
        assert 'class="ajax-update status_up"' in self.text(INDEX)

    def test_row_alone_is_in_the_zone_of_its_user(self) -> None:
        """A thread of the server may still have the zone of another user."""
        start = datetime.datetime(2026, 7, 1, 7, 6, tzinfo=datetime.UTC)
        self.leases.get.return_value = lease(start_date=start.isoformat())
        self.client.cookies['django_timezone'] = 'Europe/Berlin'
        query = {'action': 'row_update', 'table': 'leases', 'obj_id': 'x'}
        header = {'HTTP_X_REQUESTED_WITH': 'XMLHttpRequest'}
        with timezone.override('America/New_York'):
            response = self.client.get(urls.reverse(INDEX), query, **header)
        assert '2026-07-01 09:06 CEST' in response.content.decode()

    def test_one_lease_with_the_last_date_does_not_hide_the_others(self) -> None:
        last = datetime.datetime.max.isoformat()
        end = {'id': 'e1', 'event_type': 'end_lease', 'time': last, 'status': 'UNDONE'}
        far = lease(end_date=last, name='far', events=[end])
        self.leases.list.return_value = [lease(id='other', name='other'), far]
        self.leases.get.return_value = far
        self.client.cookies['django_timezone'] = 'Asia/Tokyo'
        text = self.text(INDEX)
        assert '>other<' in text
        assert '9999-12-31 23:59 UTC' in text
        for tab in ('lease__overview', 'lease__reservations', 'lease__history'):
            self.text(DETAIL, 'x', tab=tab)
        for form in ('extend', 'shorten'):
            self.text(f'horizon:project:climate_leases:{form}', 'x')

    def test_no_panel_without_the_service(self) -> None:
        self._setup_user(roles=[{'id': '1', 'name': 'member'}])
        assert self.page(INDEX).status_code in (302, 403)


class FirstUseTest(PageTest):
    def setUp(self) -> None:
        super().setUp()
        self.leases.list.return_value = []

    def test_project_without_leases_sees_three_ways_to_start(self) -> None:
        text = self.text(INDEX)
        assert 'Your project has no lease' in text
        assert f'href="{urls.reverse("horizon:project:climate_leases:create")}"' in text
        assert 'modal.openLaunchInstanceWizard' in text
        assert '--hint reserved=True' in text
        assert 'id="leases"' not in text

    def test_reader_sees_what_a_lease_is_without_buttons(self) -> None:
        self._log_in('reader')
        text = self.text(INDEX)
        assert 'Your project has no lease' in text
        assert 'Three ways to start' not in text

    def test_link_to_the_documents_needs_a_setting(self) -> None:
        assert 'Documentation of Climate' not in self.text(INDEX)
        with override_settings(CLIMATE_DOCUMENTATION_URL='https://docs.example.com/climate/'):
            assert 'href="https://docs.example.com/climate/"' in self.text(INDEX)

    def test_page_after_the_last_one_and_a_filter_have_the_table(self) -> None:
        assert 'id="leases"' in self.text(INDEX, marker='x')
        sent = {'leases__filter__q': 'x', 'leases__filter__q_field': 'name'}
        self.client.post(urls.reverse(INDEX), sent)
        assert 'id="leases"' in self.text(INDEX)

    def test_failed_list_is_no_first_use(self) -> None:
        self.leases.list.side_effect = refused('must be one of these', 'status')
        assert 'Your project has no lease' not in self.text(INDEX)


class LaunchTest(PageTest):
    def test_step_has_the_zone_and_the_end_actions(self) -> None:
        self.client.cookies['django_timezone'] = 'Europe/Berlin'
        text = self.text('horizon:project:climate_leases:launch')
        assert "reserve.setUp('Reserve', 'Europe/Berlin')" in text
        assert 'Start (Europe/Berlin; empty: now)' in text
        assert '<option value="shelve">Shelve</option>' in text

    def test_reader_has_no_step(self) -> None:
        self._log_in('reader')
        assert self.page('horizon:project:climate_leases:launch').status_code in (302, 403)


class DetailTest(PageTest):
    def test_lease_shows_what_comes_next(self) -> None:
        self.leases.get.return_value = lease(status_reason='all is well')
        text = self.text(DETAIL, 'x')
        assert '<title>' in text
        assert 'all is well' in text
        assert f'{NOW + datetime.timedelta(hours=3):%Y-%m-%d %H:%M} UTC: End' in text

    def test_resources_link_to_their_pages(self) -> None:
        self.leases.get.return_value = lease()
        text = self.text(DETAIL, 'x', tab='lease__reservations')
        page = urls.reverse('horizon:project:instances:detail', args=[SERVER_ID])
        assert f'<a href="{page}">vm1</a>' in text

    def test_history_says_who_did_what(self) -> None:
        self.leases.get.return_value = lease()
        entry = HistoryEntry('1', NOW, 'update', 'done', 'longer', 'user1')
        self.leases.history.return_value = [entry]
        text = self.text(DETAIL, 'x', tab='lease__history')
        assert 'longer' in text
        assert 'user1' in text

    def test_history_has_pages_which_begin_with_the_newest(self) -> None:
        self.leases.get.return_value = lease()
        entries = [HistoryEntry(str(9 - n), NOW, f'action{9 - n}') for n in range(3)]
        self.leases.history.return_value = entries
        self.client.cookies['API_RESULT_PAGE_SIZE'] = '2'
        text = self.text(DETAIL, 'x', tab='lease__history')
        asked = {'sort': 'time:desc', 'marker': None, 'limit': 3}
        self.leases.history.assert_called_with(lease().id, **asked)
        assert text.index('action9') < text.index('action8')
        assert 'action7' not in text
        assert '?tab=lease__history&amp;after=8"' in text
        assert 'before=' not in text
        text = self.text(DETAIL, 'x', tab='lease__history', after='8')
        assert self.leases.history.call_args.kwargs == {**asked, 'marker': '8'}
        assert '?tab=lease__history&amp;before=9"' in text
        self.leases.history.return_value = entries[1::-1]
        text = self.text(DETAIL, 'x', tab='lease__history', before='7')
        asked |= {'sort': 'time:asc', 'marker': '7'}
        assert self.leases.history.call_args.kwargs == asked
        assert text.index('action9') < text.index('action8')
        assert 'before=' not in text
        assert 'after=8"' in text

    def test_missing_lease_goes_back_to_the_list(self) -> None:
        self.leases.get.side_effect = refused('There is no lease.', kind=exceptions.NotFound)
        response = self.page(DETAIL, 'x')
        assert response.status_code == 302
        assert response['location'].endswith(urls.reverse(INDEX))
