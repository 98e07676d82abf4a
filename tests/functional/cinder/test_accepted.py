# SPDX-License-Identifier: Apache-2.0
"""What Climate accepts for new volumes, the schema of POST /volumes accepts too."""

import contextlib
import copy

import hypothesis
import pytest
from cinder.api.schemas import volumes as schema
from cinder.api.validation import validators
from hypothesis import strategies as st

from climate_core import exceptions
from climate_core.api import reservations, validation
from climate_core.cloud.volumes import CINDER
from climate_core.plugins import provisioned_plugin
from climate_core.plugins import volume as plugins_volume
from climate_core.plugins.volume import VolumePlugin
from tests.support import leases as build

OURS = reservations.of_plugin(VolumePlugin)
CINDERS = validators._SchemaValidator(schema.create_volume_v313)
ID = '11111111-1111-4111-8111-111111111111'
NAMES = st.one_of(
    st.text('a -_:./,@%\t\n\x00\x7f\x9b\xa0\u2028\uffff\U0001f600é', max_size=4),
    st.sampled_from([255, 254, 253, 252, 256]).map('n'.__mul__),
)
TEXT = st.one_of(NAMES, st.just(ID), st.none())
VOLUME = {
    'name': NAMES,
    'size': st.one_of(st.integers(-1, 2**33), st.sampled_from([1.0, 1.5, '1', True, None])),
    'count': st.one_of(st.integers(0, 101), st.sampled_from([2.0, '2', None])),
    'metadata': st.dictionaries(NAMES, NAMES, max_size=2),
    **dict.fromkeys(('description', 'volume_type', 'imageRef', 'snapshot_id'), TEXT),
    **dict.fromkeys(('source_volid', 'availability_zone'), TEXT),
}
GOOD = {'name': 'disk', 'size': 1}


def accepted(wanted):
    """Return how many volumes of a request Climate accepts; Cinder must accept each of them."""
    values = {'resource_type': 'virtual:volume', 'volume': wanted}
    volume = validation.check(values, OURS)['volume']
    claimed = provisioned_plugin.reserve_group('volume', volume, {}, {})
    made = [build.reservation(**each.params) for each in (claimed, *claimed.others)]
    lease = build.lease(*made)
    for each in made:
        CINDERS.validate({'volume': copy.deepcopy(plugins_volume.build_request(lease, each))})
    return len(made)


def test_judge_is_the_schema_of_the_version_that_is_sent():
    assert CINDER.microversion == '3.43'
    assert accepted(GOOD) == 1


@pytest.mark.parametrize('field', VOLUME)
@hypothesis.settings(max_examples=100, deadline=None)
@hypothesis.given(data=st.data())
def test_cinder_accepts_what_climate_accepts(field, data):
    wanted = {**GOOD, field: data.draw(VOLUME[field])}
    with contextlib.suppress(exceptions.BadRequest):
        accepted(wanted)


@pytest.mark.parametrize(
    ('wanted', 'field'),
    [
        ({'name': 'n' * 254, 'count': 2}, 'volume.name'),
        ({'name': '   '}, 'volume.name'),
        ({'name': 'a\x9b'}, 'volume.name'),
        ({'metadata': {'k' * 300: 'v'}}, 'volume.metadata'),
        ({'metadata': {'ä': 'v'}}, 'volume.metadata'),
        ({'description': '\x00'}, 'volume.description'),
        ({'volume_type': '\x9b'}, 'volume.volume_type'),
        ({'size': 2**31}, 'volume.size'),
    ],
)
def test_what_cinder_cannot_make_is_rejected_naming_the_field(wanted, field):
    with pytest.raises(exceptions.BadRequest) as caught:
        accepted({**GOOD, **wanted})
    assert caught.value.field == field
    assert caught.value.message.startswith(f'{field}: ')


@pytest.mark.parametrize(
    'wanted',
    [
        {'name': 'n' * 253, 'count': 2},
        {'name': ' data \U0001f600', 'description': 'a\nb'},
        {'metadata': {'a/b c': 'ä\n'}},
    ],
)
def test_what_cinder_makes_is_accepted(wanted):
    assert accepted({**GOOD, **wanted}) == wanted.get('count', 1)
