# SPDX-License-Identifier: Apache-2.0
"""The answers to the script of the form of a new lease."""

import datetime
import html
from typing import Any
from unittest import mock

from django import urls
from django.test import Client

from climate_dashboard import times
from climateclient import exceptions
from climateclient.models import DryRun, Refusal, Window
from tests.dashboard.pages import NOW, VALUES, FormTest, refused

CHECK = 'horizon:project:climate_leases:check'
HOUR = datetime.timedelta(hours=1)


class CheckTest(FormTest):
    def ask(self, do: str = 'check', client: Any = None, **given: str) -> Any:
        url = f'{urls.reverse(CHECK)}?do={do}'
        ajax = {'HTTP_X_REQUESTED_WITH': 'XMLHttpRequest'}
        return (client or self.client).post(url, {**VALUES, **given}, **ajax)

    def answer(self, do: str = 'check', **given: str) -> tuple[str, dict[str, list[str]]]:
        response = self.ask(do, **given)
        assert response.status_code == 200
        answer = response.json()
        assert answer.keys() == {'outcome', 'errors'}
        return html.unescape(answer['outcome']), answer['errors']

    def test_granted_lease_has_its_times_in_the_zone_of_the_user(self) -> None:
        self.client.cookies['django_timezone'] = 'Asia/Kathmandu'
        start = datetime.datetime(2030, 12, 1, tzinfo=datetime.UTC)
        self.leases.dry_run.return_value = DryRun(True, start_date=start, end_date=start + HOUR)
        outcome, errors = self.answer()
        assert 'alert-success' in outcome
        assert 'from 2030-12-01 05:45 +0545 to 2030-12-01 06:45 +0545' in outcome
        assert errors == {}
        assert '<html' not in outcome

    def test_rejected_lease_has_its_reasons_and_the_next_start(self) -> None:
        later = NOW + 2 * HOUR
        self.leases.dry_run.return_value = DryRun(
            False, False, (Refusal('<b>Too few</b> hosts.'),), available_from=later
        )
        response = self.ask()
        assert '&lt;b&gt;Too few&lt;/b&gt; hosts.' in response.json()['outcome']
        outcome, errors = self.answer()
        assert 'alert-warning' in outcome
        assert f'data-climate-start="{times.write(times.round_up(later))}"' in outcome
        assert 'data-climate-end=""' in outcome
        assert errors == {}

    def test_lease_that_would_wait_is_no_rejection(self) -> None:
        self.leases.dry_run.return_value = DryRun(False, True, (Refusal('Too few hosts.'),))
        outcome, _errors = self.answer(kind='retry')
        assert 'alert-info' in outcome
        assert 'would wait' in outcome

    def test_earliest_start_is_searched_by_its_button(self) -> None:
        window = Window(NOW + HOUR, NOW + 5 * HOUR, guaranteed=True)
        self.client_of_leases.availability.return_value = [window]
        outcome, _errors = self.answer('earliest')
        assert 'The earliest start is' in outcome
        assert 'data-climate-start="' in outcome
        self.client_of_leases.availability.return_value = []
        outcome, _errors = self.answer('earliest')
        assert 'No time within the reservable period' in outcome
        assert not self.leases.dry_run.called

    def test_errors_stand_at_their_fields_and_nothing_is_requested(self) -> None:
        outcome, errors = self.answer(name='', start='tomorrow', what='servers')
        assert errors.keys() == {'name', 'start', 'flavor', 'image'}
        assert 'Fill in or correct: Name, Start (UTC), Flavor, Image.' in outcome
        assert not self.leases.dry_run.called

    def test_error_of_the_service_stands_at_its_field_if_the_form_has_it(self) -> None:
        self.leases.dry_run.side_effect = refused('start_date: is in the past', 'start_date')
        _outcome, errors = self.answer()
        assert errors == {'start': ['start_date: is in the past']}
        self.leases.dry_run.side_effect = refused('no such pool', 'reservations.0.pool')
        outcome, errors = self.answer()
        assert errors == {}
        assert 'reservations.0.pool: no such pool' in outcome

    def test_one_answer_takes_one_request_and_lists_nothing(self) -> None:
        self.leases.dry_run.return_value = DryRun(True)
        names = ('flavors', 'images', 'networks', 'external_networks', 'key_pairs')
        none = dict.fromkeys(names, mock.Mock(side_effect=AssertionError))
        servers = {'what': 'servers', 'flavor': 'f9', 'image': 'i9', 'network': 'n9'}
        with mock.patch.multiple('climate_dashboard.leases.choices', **none):
            outcome, _errors = self.answer(**servers)
        assert 'would be granted' in outcome
        [wanted] = self.leases.dry_run.call_args.kwargs['reservations']
        assert wanted['server']['flavorRef'] == 'f9'
        assert self.leases.dry_run.call_count == 1
        assert not self.client_of_leases.limits.called

    def test_answer_never_creates_a_lease(self) -> None:
        self.leases.dry_run.return_value = DryRun(True)
        for do in ('create', '', 'check'):
            self.answer(do)
        assert not self.leases.create.called
        assert self.page(CHECK).status_code == 405

    def test_request_without_token_of_the_form_is_rejected(self) -> None:
        strict = Client(enforce_csrf_checks=True)
        strict.cookies = self.client.cookies
        assert self.ask(client=strict).status_code == 403
        assert not self.leases.dry_run.called

    def test_reader_gets_no_answer(self) -> None:
        self._log_in('reader')
        assert self.ask().status_code == 403
        assert not self.leases.dry_run.called

    def test_rejection_by_the_policy_of_the_service_is_shown(self) -> None:
        self.leases.dry_run.side_effect = refused('not allowed', kind=exceptions.Forbidden)
        assert 'not allowed' in self.answer()[0]
