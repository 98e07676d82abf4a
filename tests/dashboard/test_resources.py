# SPDX-License-Identifier: Apache-2.0
"""What reservations hold, with links to the pages of other panels."""

from typing import Any
from unittest import mock

import pytest
from django import urls

from climate_dashboard.leases import resources
from climateclient.models import Reservation


def shown(resource_type: str, is_operator: bool = False, **given: Any) -> str:
    values = {'id': 'r1', 'status': 'active', 'resource_type': resource_type, **given}
    names = {'s1': 'vm1', 'v1': 'data'}
    return str(resources.shown(Reservation.from_dict(values), names, is_operator))


def link(page: str, text: str, *arguments: str) -> str:
    return f'<a href="{urls.reverse(f"horizon:{page}", args=arguments)}">{text}</a>'


@pytest.mark.parametrize(
    ('resource_type', 'found', 'page', 'text'),
    [
        ('virtual:instance', 's1', 'project:instances:detail', 'vm1'),
        ('virtual:instance', 'unknown', 'project:instances:detail', 'unknown'),
        ('virtual:volume', 'v1', 'project:volumes:detail', 'data'),
    ],
)
def test_server_or_volume_is_a_link_by_its_name(
    resource_type: str, found: str, page: str, text: str
) -> None:
    assert shown(resource_type, resource_id=found) == link(page, text, found)


def test_stack_is_a_link_where_there_is_a_panel_for_stacks() -> None:
    stack: dict[str, Any] = {'resource_id': 'k1', 'name': '<group>'}
    # Heat's panels are a plugin of their own, which is not here.
    assert shown('virtual:stack', **stack) == '&lt;group&gt;'
    with mock.patch.object(resources.urls, 'reverse', return_value='/project/stacks/k1/') as to:
        assert shown('virtual:stack', **stack) == '<a href="/project/stacks/k1/">&lt;group&gt;</a>'
    to.assert_called_once_with('horizon:project:stacks:detail', args=('k1',))


def test_hosts_are_links_for_operators_alone() -> None:
    hosts: dict[str, Any] = {'hosts': ['compute4', 'compute5'], 'min': 2, 'max': 2}
    assert shown('physical:host', **hosts) == 'compute4, compute5'
    links = [link('admin:climate_hosts:index', each) for each in hosts['hosts']]
    assert shown('physical:host', is_operator=True, **hosts) == ', '.join(links)


def test_addresses_are_links_to_their_list() -> None:
    addresses = ['203.0.113.7', '203.0.113.8']
    links = [link('project:floating_ips:index', each) for each in addresses]
    assert shown('virtual:floatingip', floatingips=addresses) == ', '.join(links)


def test_network_is_a_link_by_its_name_once_it_is_made() -> None:
    made: dict[str, Any] = {'network_id': 'n1', 'network_name': 'net1'}
    assert shown('network', **made) == link('project:networks:detail', 'net1', 'n1')
    assert '<a' not in shown('network', network_name='net1')


def test_what_is_not_there_yet_is_what_was_asked_for() -> None:
    assert (
        shown('physical:host', min=1, max=3, resource_properties='vcpus>=16') == '1-3, vcpus>=16'
    )
    assert shown('virtual:floatingip', amount=2) == '2'
    sizes = {'vcpus': 2, 'memory_mb': 2048, 'disk_gb': 10}
    by_sizes = shown('virtual:instance', resource_id='r', amount=2, **sizes)
    assert by_sizes.startswith('2, ')
    assert '2 GiB' in by_sizes
    flavor: dict[str, Any] = {'flavor_id': 'r1', 'amount': 2, 'pool': 'fast', **sizes}
    source = '{"id": "1", "name": "m1.small"}'
    assert shown('flavor:instance', **flavor, resource_properties=source) == '2, m1.small, fast'
    assert shown('flavor:instance', **flavor) == '2, r1, fast'
    assert shown('virtual:instance', server={'name': 'web', 'count': 2}) == 'to be created: web'
    assert shown('virtual:stack') == '-'
