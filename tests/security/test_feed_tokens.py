# SPDX-License-Identifier: Apache-2.0
"""Whoever reads a log cannot read feeds: it has no token of one."""

import logging
import pathlib

import pytest
import requests
import webob
import webob.dec

from climate_core import conf as configuration
from climate_core.api import app, errors
from climate_core.cmd import manage
from climate_core.cmd.manage import serve
from climate_core.db import feeds

TOKEN = feeds.create_token()


def assert_nowhere(text: str) -> None:
    assert TOKEN.secret not in text


@pytest.mark.parametrize('place', ['leases.ics?token={}', 'leases.ics/{}', '{}'])
def test_all_in_one_service_logs_no_token(
    tmp_path: pathlib.Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    place: str,
) -> None:
    caplog.set_level(logging.INFO)
    words = ['serve', '--noauth', '--port', '0', '--state-dir', str(tmp_path)]
    with serve.serving(configuration.load(words, [], cli=[manage.command()])) as url:
        answer = requests.get(f'{url}/{place.format(TOKEN)}', timeout=60)
    assert answer.status_code == 404
    assert '/v1/' in caplog.text
    assert_nowhere(caplog.text)
    assert_nowhere(''.join(capfd.readouterr()))


@pytest.mark.parametrize('middleware', [app.RequestLog, errors.Faults])
def test_token_in_a_path_is_logged_without_its_secret(
    middleware: type, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    @webob.dec.wsgify
    def application(_request: webob.Request) -> webob.Response:
        if middleware is errors.Faults:
            raise RuntimeError('unexpected')
        return webob.Response(status=404)

    webob.Request.blank(f'/v1/leases.ics/{TOKEN}').get_response(middleware(application))
    assert str(TOKEN)[:32] in caplog.text
    assert_nowhere(caplog.text)
