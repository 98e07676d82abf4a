# SPDX-License-Identifier: Apache-2.0
"""The form of a new lease."""

import datetime
import html
import re
from unittest import mock
from urllib import parse

from django import urls

from climate_dashboard import times
from climateclient.calendar import Capacity, Step
from climateclient.models import DryRun, Limit, Refusal, Window
from tests.dashboard.pages import CREATE, NOW, VALUES, FormTest, lease, refused

HOUR = datetime.timedelta(hours=1)


class CreateTest(FormTest):
    def test_form_has_limits_and_the_zone_beside_it(self) -> None:
        self.client.cookies['django_timezone'] = 'Europe/Berlin'
        text = self.text(CREATE)
        assert '<th scope="row">Leases</th><td>3</td><td>10</td>' in text
        assert 'Europe/Berlin' in text

    def test_limits_have_names_and_units_in_the_language_of_the_user(self) -> None:
        found = [Limit('leases', 10, 3), Limit('reserved_memory_mb', -1, 2048), Limit('own', 1, 0)]
        self.client_of_leases.limits.return_value = found
        text = self.text(CREATE)
        assert '<th scope="row">Memory</th><td>2 GiB</td><td>None</td>' in text
        # One that the dashboard does not know.
        assert '<th scope="row">own</th>' in text
        self.client.cookies['django_language'] = 'de'
        text = self.text(CREATE)
        assert '<th scope="row">Speicher</th><td>2 GiB</td><td>Keine</td>' in text
        assert '<th scope="row">Leases</th>' in text

    def test_form_takes_times_from_its_address(self) -> None:
        text = self.text(CREATE, start='2082-12-01 09:00', end='2082-12-01 18:00')
        assert 'value="2082-12-01T09:00"' in text
        assert 'value="2082-12-01T18:00"' in text
        assert text.count('type="datetime-local"') == 2

    def test_texts_of_help_are_there_for_those_who_see_no_signs(self) -> None:
        text = self.text(CREATE)
        ids = re.findall(r'aria-describedby="(\w+)"', text)
        assert len(ids) > 5
        assert all(text.count(f' id="{each}"') == 1 for each in ids)

    def test_date_picker_of_horizon_keeps_away_from_times(self) -> None:
        """It empties the fields id_start and id_end if more than a day is entered."""
        text = self.text(CREATE)
        for name in ('start', 'end'):
            assert f'id="id_{name}"' not in text
            assert f'id="climate_{name}"' in text
            assert f'for="climate_{name}"' in text

    def test_hosts_are_reserved_with_their_conditions(self) -> None:
        self.leases.create.return_value = lease()
        response = self.send(most='3', conditions='vcpus>=16,memory_mb>=64GiB', pool='gold')
        assert response.status_code == 302
        made = self.made()
        assert made['reservations'] == [
            {
                'resource_type': 'physical:host',
                'min': 2,
                'max': 3,
                'resources': 'vcpus>=16,memory_mb>=65536',
                'pool': 'gold',
            }
        ]
        assert (made['start'], made['duration']) == ('now', 4 * HOUR)

    def test_servers_are_reserved_by_specification(self) -> None:
        self.leases.create.return_value = lease()
        self.send(what='servers', flavor='f1', image='i1', network='n1', on_end='stop')
        assert self.made()['reservations'] == [
            {
                'resource_type': 'virtual:instance',
                'server': {
                    'name': 'lease1',
                    'flavorRef': 'f1',
                    'imageRef': 'i1',
                    'count': 2,
                    'networks': [{'uuid': 'n1'}],
                },
                'on_end': 'stop',
            }
        ]

    def test_capacity_and_addresses_are_reserved(self) -> None:
        self.leases.create.return_value = lease()
        self.send(what='capacity', flavor='f1')
        assert self.made()['reservations'][0]['amount'] == 2
        self.leases.create.reset_mock()
        self.send(what='floatingips', external_network='x1', count='1')
        assert self.made()['reservations'] == [
            {'resource_type': 'virtual:floatingip', 'network_id': 'x1', 'amount': 1}
        ]

    def test_stack_is_made_of_a_template(self) -> None:
        self.leases.create.return_value = lease()
        template = 'heat_template_version: 2021-04-16\r\nresources: {}'
        parameters = 'workers=3\r\n\r\n key = a=b '
        stack = {'what': 'stack', 'stack_name': 'group1', 'template': template}
        self.send(**stack, parameters=parameters)
        assert self.made()['reservations'] == [
            {
                'resource_type': 'virtual:stack',
                'name': 'group1',
                'template': template,
                'parameters': {'workers': '3', 'key': 'a=b'},
            }
        ]

    def test_stack_needs_a_name_and_a_template(self) -> None:
        form = self.send(what='stack', parameters='workers').context['form']
        assert set(form.errors) == {'stack_name', 'template', 'parameters'}
        assert not self.leases.create.called

    def test_lease_can_wait_for_enough_and_for_its_user(self) -> None:
        self.leases.create.return_value = lease()
        self.send(kind='retry', start_policy='manual')
        made = self.made()
        assert (made['kind'], made['start_policy']) == ('retry', 'manual')
        self.leases.create.reset_mock()
        self.send()
        assert 'kind' not in self.made()
        assert self.made().get('start_policy') in (None, 'auto')

    def test_member_may_not_move_the_servers_of_others(self) -> None:
        assert 'best_effort' not in self.text(CREATE)
        form = self.send(kind='best_effort').context['form']
        assert set(form.errors) == {'kind'}
        assert not self.leases.create.called

    def test_operator_moves_the_servers_of_others_for_hosts_alone(self) -> None:
        self._log_in('admin', 'member', 'reader')
        self.leases.create.return_value = lease()
        assert 'best_effort' in self.text(CREATE)
        form = self.send(kind='best_effort', what='capacity', flavor='f1').context['form']
        assert set(form.errors) == {'kind'}
        self.send(kind='best_effort')
        assert self.made()['kind'] == 'best_effort'

    def test_times_are_read_in_the_zone_of_the_user(self) -> None:
        self.leases.create.return_value = lease()
        self.client.cookies['django_timezone'] = 'Europe/Berlin'
        self.send(start='2082-12-01 09:00', duration='', end='2082-12-01 18:00')
        made = self.made()
        assert made['start'] == datetime.datetime(2082, 12, 1, 8, tzinfo=datetime.UTC)
        assert made['end'] == datetime.datetime(2082, 12, 1, 17, tzinfo=datetime.UTC)

    def test_start_can_be_a_duration_from_now(self) -> None:
        self.leases.create.return_value = lease()
        for given in ({'delay': '2h'}, {'start': '+2h'}):
            with mock.patch('django.utils.timezone.now', return_value=NOW):
                self.send(**given)
            assert self.made()['start'] == NOW + 2 * HOUR
            self.leases.create.reset_mock()
        form = self.send(start='2030-12-01T09:00', delay='2h').context['form']
        assert set(form.errors) == {'delay'}
        form = self.send(delay='8000y').context['form']
        assert set(form.errors) == {'delay'}
        assert not self.leases.create.called

    def test_picker_names_the_zone_and_takes_what_it_shows(self) -> None:
        self.leases.create.return_value = lease()
        self.client.cookies['django_timezone'] = 'Europe/Berlin'
        text = self.text(CREATE)
        assert '<span class="field-label">Start (Europe/Berlin)</span>' in text
        assert '<span class="field-label">End (Europe/Berlin)</span>' in text
        self.send(start='2030-12-01T09:00', duration='', end='2030-12-01T18:00')
        made = self.made()
        assert made['start'] == datetime.datetime(2030, 12, 1, 8, tzinfo=datetime.UTC)
        assert made['end'] == datetime.datetime(2030, 12, 1, 17, tzinfo=datetime.UTC)

    def test_time_that_comes_twice_is_corrected_in_a_text_field(self) -> None:
        self.client.cookies['django_timezone'] = 'America/New_York'
        form = self.send(start='2030-11-03T01:30').context['form']
        assert set(form.errors) == {'start'}
        assert 'type="text" name="start" value="2030-11-03T01:30"' in str(form['start'])
        text = self.text(CREATE, start='2030-11-03 01:30-04:00')
        assert 'type="text" name="start" value="2030-11-03 01:30-04:00"' in text

    def test_form_takes_what_is_free_when_the_clocks_change(self) -> None:
        self.client.cookies['django_timezone'] = 'America/New_York'
        since = datetime.datetime(2083, 11, 7, 5, 30, tzinfo=datetime.UTC)
        steps = (Step(since, 4, 2, 1, 2), Step(since + HOUR, 4, 4, 0, 0))
        calendar = self.client_of_leases.calendar
        calendar.capacity.return_value = [Capacity('host', 'default', 'host', steps)]
        text = self.text(
            'horizon:project:climate_calendar:index', span='1d', start='2083-11-07 00:00-04:00'
        )
        link = re.findall(r'href="([^"]*/create/\?start=[^"]*)"', text)[0]
        given = self.client.get(html.unescape(link)).context['form'].initial
        self.leases.dry_run.return_value = DryRun(True, False, ())
        self.send('check', **given)
        asked = self.leases.dry_run.call_args.kwargs
        assert (asked['start'], asked['end']) == (since, since + HOUR)

    def test_wrong_values_are_told_at_their_fields(self) -> None:
        form = self.send(start='tomorrow', conditions='many', what='servers').context['form']
        assert set(form.errors) == {'start', 'conditions', 'flavor', 'image'}
        form = self.send(end='2082-12-01 18:00').context['form']
        assert set(form.errors) == {'duration'}
        assert not self.leases.create.called

    def test_refusal_is_told_in_the_form_which_keeps_what_was_entered(self) -> None:
        self.leases.create.side_effect = refused('There is not enough.', 'reservations')
        text = self.send(pool='gold').content.decode()
        assert 'reservations: There is not enough.' in text
        assert 'req-1' not in text
        assert 'value="gold"' in text

    def test_check_creates_nothing_and_offers_when_there_is_enough(self) -> None:
        later = (NOW + HOUR).replace(minute=7, second=1)
        self.leases.dry_run.return_value = DryRun(
            False, False, (Refusal('Too few hosts.'),), available_from=later
        )
        text = self.send('check').content.decode()
        assert 'Too few hosts.' in text
        assert f'?do=check&amp;start_at={later:%Y-%m-%d+%H}%3A08"' in text
        assert not self.leases.create.called

    def test_chosen_start_is_checked_and_nothing_created(self) -> None:
        self.leases.dry_run.return_value = DryRun(True, start_date=NOW, end_date=NOW + HOUR)
        address = f'{urls.reverse(CREATE)}?do=check&start_at=2082-12-01+09:00'
        text = self.client.post(address, VALUES).content.decode()
        assert 'It would be granted' in text
        assert 'value="2082-12-01T09:00"' in text
        assert not self.leases.create.called

    def test_offered_start_moves_the_end_that_was_entered(self) -> None:
        self.leases.dry_run.return_value = DryRun(
            False, False, (Refusal('Too few hosts.'),), available_from=NOW + 9 * HOUR
        )
        start = times.round_up(NOW + HOUR)
        given = {'start': times.write(start), 'duration': '', 'end': times.write(start + 4 * HOUR)}
        text = html.unescape(self.send('check', **given).content.decode())
        offered = times.round_up(NOW + 9 * HOUR)
        wanted = {'start_at': times.write(offered), 'end_at': times.write(offered + 4 * HOUR)}
        query = parse.urlencode({'do': 'check', **wanted})
        assert f'formaction="?{query}"' in text
        self.leases.dry_run.reset_mock()
        self.client.post(f'{urls.reverse(CREATE)}?{query}', {**VALUES, **given})
        asked = self.leases.dry_run.call_args.kwargs
        assert (asked['start'], asked['end']) == (offered, offered + 4 * HOUR)

    def test_only_the_button_for_it_creates_a_lease(self) -> None:
        """The names of buttons are not sent: Horizon's script disables them before."""
        self.leases.dry_run.return_value = DryRun(True)
        for button in ('', 'check', 'other'):
            self.send(button)
        assert not self.leases.create.called
        text = self.text(CREATE)
        assert all(f'formaction="?do={each}"' in text for each in ('create', 'check', 'earliest'))

    def test_earliest_time_is_offered(self) -> None:
        start = (NOW + HOUR).replace(second=0)
        window = Window(start, start + HOUR, guaranteed=False)
        self.client_of_leases.availability.return_value = [window]
        text = self.send('earliest', what='servers', flavor='f1', image='i1').content.decode()
        assert f'The earliest start is {start:%Y-%m-%d %H:%M} UTC.' in text
        assert 'not guaranteed' in text
        [asked] = self.client_of_leases.availability.call_args.args[0]
        assert asked['server'] == {'flavorRef': 'f1', 'count': 2}

    def test_reader_gets_no_form(self) -> None:
        self._log_in('reader')
        assert self.page(CREATE).status_code == 403
        assert self.send().status_code == 403
        assert not self.leases.create.called
