# SPDX-License-Identifier: Apache-2.0
"""The API, hints, commands and Heat refuse the same values with the same sentences."""

import datetime

import pytest
from osc_lib.exceptions import CommandError

from climate_common import dates
from climate_core import exceptions
from climate_core.lease import request
from climateclient.extension import hints
from climateclient.osc import arguments
from heat_ext.service import constraints

NOW = datetime.datetime(2082, 11, 21, 12, tzinfo=datetime.UTC)


def of_api(**values):
    with pytest.raises(exceptions.BadRequest) as caught:
        request.read_lease_request({'name': 'l', **values}, NOW, request.RequestRules())
    assert caught.value.field.partition('[')[0] in values
    return caught.value.message


def of_hint(**values):
    with pytest.raises(hints.BadHint) as caught:
        hints.parse({'lease_params': values}, NOW, hints.HintRules(('delete',)))
    return caught.value.reason


def of_command(read, value):
    with pytest.raises(CommandError) as caught:
        read('--option', value)
    return str(caught.value).removeprefix('--option: ')


def of_heat(constraint, value):
    assert not constraint.validate(value, None)
    return constraint.error(value)


@pytest.mark.parametrize('value', ['tomorrow', '2026-02-30 12:00', '2082-12-01', '+soon'])
def test_wrong_date_is_refused_with_one_sentence_everywhere(value):
    with pytest.raises(dates.DateError) as caught:
        dates.parse(value, NOW)
    assert {
        of_api(end_date=value),
        of_hint(end=value),
        of_command(arguments.time, value),
        of_heat(constraints.DateConstraint(), value),
    } == {str(caught.value)}


@pytest.mark.parametrize('value', ['long', '0', 'P1M', '3 weeks', '24856d', '9999999d'])
def test_wrong_duration_is_refused_with_one_sentence_everywhere(value):
    with pytest.raises(dates.DurationError) as caught:
        dates.parse_duration(value)
    assert {
        of_api(duration=value),
        of_hint(duration=value),
        of_command(arguments.duration, value),
        of_heat(constraints.DurationConstraint(), value),
    } == {str(caught.value)}


@pytest.mark.parametrize('value', ['', ' ', 'x' * 256, 'a\nb'])
def test_wrong_name_is_refused_with_one_sentence(value):
    assert of_api(name=value, duration='1h') == of_hint(name=value)


@pytest.mark.parametrize('value', [60, [0], ['1h'], [60] * 21])
def test_wrong_start_notices_are_refused_with_one_sentence(value):
    assert of_api(before_start=value, duration='1h') == of_hint(before_start=value)


@pytest.mark.parametrize('value', ['Upper', 'x.error', 'end_lease'])
def test_wrong_event_type_is_refused_with_one_sentence(value):
    events = [{'event_type': value, 'time': 'now'}]
    assert of_api(events=events, duration='1h') == of_hint(events=events)
