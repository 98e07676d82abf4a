# SPDX-License-Identifier: Apache-2.0

import ipaddress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from climate_core import exceptions, webhooks

SECRET = 'correct horse battery'


def hook(**values: Any) -> dict[str, Any]:
    return {'url': 'https://example.org/hook', 'secret': SECRET} | values


def test_all_events_are_sent_by_default() -> None:
    assert webhooks.read_webhook(hook()) == hook(events=['*'])
    assert webhooks.read_webhook(hook(events=['lease.event.*']))['events'] == ['lease.event.*']


@pytest.mark.parametrize(
    'url',
    [
        'http://example.org',
        'https://example.org:8443/a/b?c=d#e',
        'http://203.0.114.5/x',
        'http://[2600::1]:80/',
        'http://192.0.3.1./',
        'https://0xyz.example.org/',
        'http://a.b.c.d4/',
    ],
)
def test_url_that_may_be_called_is_accepted(url: str) -> None:
    assert webhooks.read_url(url) == url


@pytest.mark.parametrize(
    'url',
    [
        None,
        5,
        '',
        'example.org',
        '//example.org/',
        'ftp://example.org/',
        'http:///path',
        'http://',
        'https://./',
        'http://exa mple.org/',
        'http://example.org/\n',
        'http://exämple.org/',
        'http://example.org:99999/',
        'http://example.org:x/',
        'http://[::1/',
        'http://user@example.org/',
        'http://user:secret@example.org/',
        'http://@example.org/',
        'http://example.org\\@127.0.0.1/',
        'http://example.org/' + 'x' * 2048,
    ],
)
def test_webhook_without_a_url_is_refused(url: Any) -> None:
    with pytest.raises(exceptions.InvalidWebhook) as caught:
        webhooks.read_webhook(hook(url=url))
    assert caught.value.field == 'webhook.url'


#: The addresses themselves are tested in test_addresses.
FORBIDDEN = [
    'http://127.8.8.8:80/',
    'http://localhost/',
    'https://localhost./',
    'http://a.localhost./',
    'http://[::1]/',
    'http://[::ffff:127.0.0.1]/',
    # Old ways of writing 127.0.0.1.
    'http://127.1/',
    'http://2130706433/',
    'http://0x7f000001/',
    'http://0x7f.0.0.1/',
    'http://0177.0.0.1/',
]


@pytest.mark.parametrize('url', FORBIDDEN)
def test_addresses_that_are_not_called(url: str) -> None:
    with pytest.raises(exceptions.InvalidWebhook):
        webhooks.read_url(url)


@pytest.mark.parametrize('url', ['http://127.0.0.1:9/', 'http://localhost/', 'http://[::1]/'])
def test_addresses_that_the_operator_allows(url: str) -> None:
    rules = webhooks.WebhookRules(
        [ipaddress.ip_network('127.0.0.0/8'), ipaddress.ip_network('::1/128')]
    )
    assert webhooks.read_url(url, rules) == url
    with pytest.raises(exceptions.InvalidWebhook):
        webhooks.read_url('http://169.254.169.254/', rules)


def test_addresses_that_the_operator_refuses() -> None:
    ten, five = ipaddress.ip_network('10.0.0.0/8'), ipaddress.ip_network('10.0.0.5/32')
    rules = webhooks.WebhookRules(allowed=[five], refused=[ten])
    assert webhooks.read_url('http://10.0.0.5/', rules)
    for url in ('http://10.0.0.6/', 'http://[::ffff:10.0.0.6]/', 'http://[64:ff9b::10.0.0.6]/'):
        with pytest.raises(exceptions.InvalidWebhook):
            webhooks.read_url(url, rules)


def test_webhooks_can_be_turned_off() -> None:
    with pytest.raises(exceptions.InvalidWebhook):
        webhooks.read_webhook(hook(), webhooks.WebhookRules(enabled=False))


@pytest.mark.parametrize(
    ('values', 'field'),
    [
        ({'secret': None}, 'webhook.secret'),
        ({'secret': 'x' * 15}, 'webhook.secret'),
        ({'secret': 'x' * 256}, 'webhook.secret'),
        ({'secret': 'x' * 16 + '\n'}, 'webhook.secret'),
        ({'secret': 'ä' * 16}, 'webhook.secret'),
        ({'events': []}, 'webhook.events'),
        ({'events': 'lease.*'}, 'webhook.events'),
        ({'events': ['lease.*'] * 33}, 'webhook.events'),
        ({'events': ['Lease']}, 'webhook.events'),
        ({'events': ['a\n']}, 'webhook.events'),
        ({'events': [5]}, 'webhook.events'),
        ({'verify': False}, 'webhook.verify'),
    ],
)
def test_wrong_field_of_a_webhook_is_refused(values: dict[str, Any], field: str) -> None:
    with pytest.raises(exceptions.InvalidWebhook) as caught:
        webhooks.read_webhook(hook(**values))
    assert caught.value.field == field
    assert str(values.get('secret') or SECRET) not in caught.value.message


def test_a_webhook_is_an_object() -> None:
    with pytest.raises(exceptions.InvalidWebhook):
        webhooks.read_webhook('https://example.org')


@given(st.text(max_size=40))
def test_any_text_is_taken_or_refused(text: str) -> None:
    for url in (text, f'http://{text}', f'http://{text}/'):
        try:
            assert webhooks.read_url(url) == url
        except exceptions.InvalidWebhook as error:
            assert error.field == 'webhook.url'  # noqa: PT017
