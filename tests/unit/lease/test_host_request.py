# SPDX-License-Identifier: Apache-2.0
"""What an operator may ask of a host."""

import pytest

from climate_core import exceptions
from climate_hosts import hosts
from climate_hosts.hosts import State
from tests.unit.lease.samples import host


def test_host_that_is_emptied_for_a_lease_is_not_changed() -> None:
    hosts.check_not_evacuating(host(state=State.EMPTYING))
    with pytest.raises(exceptions.HostChanging, match='cn1 is being drained for lease lease1'):
        hosts.check_not_evacuating(host(emptied_for='lease1'))


@pytest.mark.parametrize(
    ('extra', 'said'),
    [
        ({'vcpus': 1}, 'vcpus: comes from Nova or Placement'),
        ({'pool': 'x'}, 'pool: comes from Nova or Placement'),
        ({'7up': 1}, '7up: must begin with a letter'),
        ({'a b': 1}, 'a b: must begin with a letter'),
        ({'a' * 65: 1}, 'must have 64 characters at most'),
    ],
)
def test_extra_property_with_a_wrong_name_is_refused(extra, said) -> None:
    hosts.check_extra({'a' * 64: 1, 'gpu:model-2.x': 'y'})
    with pytest.raises(exceptions.BadRequest, match=said) as caught:
        hosts.check_extra(extra)
    assert caught.value.field == next(iter(extra))


def test_reason_for_a_host_that_is_not_disabled_is_refused() -> None:
    hosts.check_disabled_reason('disk', available=False)
    hosts.check_disabled_reason(None, available=True)
    with pytest.raises(exceptions.BadRequest, match='only with disabled: true') as caught:
        hosts.check_disabled_reason('disk', available=True)
    assert caught.value.field == 'disabled_reason'
