# SPDX-License-Identifier: Apache-2.0
import json
from typing import Any

import pytest

from climate_core import exceptions
from climate_core.plugins import filters

HOST = {
    'hypervisor_hostname': 'cn1.example',
    'service_name': 'cn1',
    'vcpus': 16,
    'memory_mb': 65536,
    'availability_zone': 'nova',
    'traits': ['HW_CPU_X86_AVX2', 'CUSTOM_SSD'],
    'aggregates': ['rack7', 'fast'],
    'gpus': 9,
    'gpu': 'True',
    'model': 'R740',
    'version': 2.5,
}


def matches(**values: Any) -> bool:
    return filters.compile_filter(values).matches(HOST)


@pytest.mark.parametrize(
    ('tree', 'expected'),
    [
        (['>=', '$vcpus', '16'], True),
        (['>', '$vcpus', '16'], False),
        (['<', '$vcpus', 17], True),
        (['<=', '$version', '2.49'], False),
        (['==', '$vcpus', '16.0'], True),
        # As texts "9" is more than "16".
        (['>=', '$gpus', '16'], False),
        (['=', '$gpu', 'True'], True),
        (['==', '$gpu', 'true'], True),
        (['==', '$gpu', True], True),
        (['!=', '$model', 'R640'], True),
        (['>', '$model', 'R640'], True),
        # A number is never like a text, and in no order with it.
        (['==', '$model', 740], False),
        (['!=', '$model', 740], True),
        (['>', '$model', 740], False),
        # No host of this kind has it.
        (['==', '$rack', 7], False),
        (['!=', '$rack', 7], False),
        (['==', '$traits', 'CUSTOM_SSD'], True),
        (['!=', '$traits', 'CUSTOM_SSD'], False),
        (['==', '$aggregates', '!rack7'], False),
        (['and', ['==', '$vcpus', 16], ['==', '$gpus', 9]], True),
        (['and', ['==', '$vcpus', 16], ['==', '$gpus', 8]], False),
        (['or', ['==', '$vcpus', 1], ['and', ['==', '$gpus', 9], ['==', '$gpu', 'True']]], True),
        (['or', ['==', '$vcpus', 1]], False),
    ],
)
@pytest.mark.parametrize('field', ['hypervisor_properties', 'resource_properties'])
def test_filter_in_the_json_of_blazar_matches(field: str, tree: Any, expected: bool) -> None:
    assert matches(**{field: json.dumps(tree)}) is expected


@pytest.mark.parametrize(
    ('values', 'expected'),
    [
        ({}, True),
        ({'hypervisor_properties': '', 'resource_properties': '', 'traits': None}, True),
        ({'hypervisor_properties': '[]', 'resource_properties': ' [ ] '}, True),
        ({'hypervisor_properties': None, 'resource_properties': 'null'}, True),
        ({'hypervisor_properties': '[]', 'resource_properties': '[">", "$vcpus", "16"]'}, False),
        ({'resources': 'vcpus>=16'}, True),
        ({'resources': 'vcpus >= 16 , memory_mb<65536'}, False),
        ({'resources': ['vcpus==16', 'gpu=True', 'model!=R640']}, True),
        ({'traits': 'CUSTOM_SSD,HW_CPU_X86_AVX2'}, True),
        ({'traits': ['CUSTOM_SSD', '!HW_CPU_X86_AVX2']}, False),
        ({'traits': '!HW_CPU_X86_VMX'}, True),
        ({'aggregates': 'rack7,!slow'}, True),
        ({'aggregates': 'rack7,slow'}, False),
        ({'availability_zone': 'nova'}, True),
        ({'availability_zone': 'az2'}, False),
        ({'names': 'cn1.example,cn2.example'}, True),
        ({'names': ['cn1']}, True),
        ({'names': 'cn2'}, False),
        # All that is said must hold.
        ({'resources': 'vcpus>=16', 'names': 'cn2'}, False),
        ({'resources': 'vcpus>=16', 'resource_properties': '["<", "$gpus", 9]'}, False),
    ],
)
def test_readable_conditions_are_compared(values: dict[str, Any], expected: bool) -> None:
    assert matches(**values) is expected


@pytest.mark.parametrize(
    ('field', 'value', 'said'),
    [
        ('resource_properties', '["==", "$vcpus"', 'must be JSON, as .* at character 16'),
        ('resource_properties', '[' * 100_000, 'must be JSON, as'),
        ('resource_properties', '["==", "$vcpus", NaN]', 'NaN is no number of JSON'),
        ('hypervisor_properties', '[">", "$vcpus", -Infinity]', 'is no number of JSON'),
        ('resource_properties', '[">", "$vcpus", 1e999]', 'is no number of JSON'),
        ('resource_properties', '{}', 'must be a condition in JSON'),
        (
            'resource_properties',
            '["like", "$vcpus", "1"]',
            'in JSON, as.*and, or and ==',
        ),
        ('resource_properties', '["==", "vcpus", "1"]', 'must be a condition in JSON'),
        ('resource_properties', '["==", "$vcpus", ["1"]]', 'must be a condition in JSON'),
        ('resource_properties', '["and"]', 'must be a condition in JSON'),
        ('hypervisor_properties', '["and", ' * 17 + '["==", "$gpu", 1]' + ']' * 17, 'deeper'),
        ('hypervisor_properties', '[">", "$traits", "A"]', 'can only be compared with == and !='),
        ('resources', 'vcpus', 'must be the name of a property, one of'),
        ('resources', 'vcpus>=', 'must be the name of a property, one of'),
        ('resources', 'vcpus>=x', "vcpus must be compared with a number, not with 'x'"),
        ('resource_properties', '["==", "$memory_mb", "a"]', 'memory_mb must be compared with a'),
        ('resources', 'vcpus=>16', 'must be the name of a property, one of'),
        ('resources', 'vcpus>=16,', 'between its commas'),
        ('resources', {'vcpus': 16}, 'a list of texts'),
        ('traits', 'ssd', 'must be the name of a trait: 1 to 255 capital letters'),
        ('traits', '!', 'must be the name of a trait: 1 to 255 capital letters'),
        ('aggregates', 'rack7,!', 'must have a name after each "!"'),
        ('names', ['cn1', 7], 'a list of texts'),
    ],
)
def test_what_is_no_filter_is_refused(field: str, value: Any, said: str) -> None:
    with pytest.raises(exceptions.BadRequest, match=said) as caught:
        matches(**{field: value})
    assert caught.value.field == field


@pytest.mark.parametrize(
    ('values', 'field', 'said'),
    [
        (
            {'resources': 'vcpus>8,vcpus>=64'},
            'resources',
            'no host has vcpus>=64; the largest has 16',
        ),
        (
            {'resources': 'vcpus==64'},
            'resources',
            'no host has vcpus==64; the smallest has 4, the largest 16',
        ),
        (
            {'resources': 'memory_mb<=7'},
            'resources',
            'no host has memory_mb<=7; the smallest has 8',
        ),
        (
            {'resource_properties': '["<", "$vcpus", 4]'},
            'resource_properties',
            'no host has vcpus<4; the smallest has 4',
        ),
        # Users need not know the values of this.
        ({'resources': 'gpus>16'}, 'resources', 'no host has gpus>16'),
        (
            {'hypervisor_properties': '["and", [">", "$gpus", 1], [">", "$memory_mb", 99999]]'},
            'hypervisor_properties',
            'no host has memory_mb>99999; the largest has 65536',
        ),
        (
            {'resource_properties': '["or", ["==", "$gpus", 1]]'},
            'resource_properties',
            'no host has ["or", ["==", "$gpus", 1]]',
        ),
        (
            {'resource_properties': '["==", "$traits", "CUSTOM_GPU"]'},
            'resource_properties',
            'no host has traits==CUSTOM_GPU',
        ),
        ({'traits': 'CUSTOM_SSD,CUSTOM_GPU'}, 'traits', 'no host has the trait CUSTOM_GPU'),
        ({'aggregates': '!fast'}, 'aggregates', 'no host has not the aggregate fast'),
        (
            {'availability_zone': 'az2'},
            'availability_zone',
            'no host has the availability zone az2',
        ),
        ({'names': 'cn3,cn2'}, 'names', 'no host of the pools has the name cn2 or cn3'),
        (
            {'names': 'small', 'resources': 'gpus=9'},
            None,
            'no host has all of gpus=9, the name small',
        ),
        ({'names': 'cn1', 'resources': 'gpus=9'}, None, None),
    ],
)
def test_filter_says_what_no_host_has_and_names_the_field(
    values: dict[str, Any], field: str | None, said: str | None
) -> None:
    small = {'service_name': 'small', 'vcpus': 4, 'memory_mb': 8, 'aggregates': ['fast']}
    found = filters.compile_filter(values).find_shortage([HOST, small])
    assert found == (said and (said, field))


def test_properties_that_are_compared_are_named_with_their_fields() -> None:
    json_text = '["or", ["==", "$gpu", 1], ["==", "$rack", 7]]'
    found = filters.compile_filter({'hypervisor_properties': json_text, 'resources': 'x=1'})
    fields = {'gpu': 'hypervisor_properties', 'rack': 'hypervisor_properties', 'x': 'resources'}
    assert found.names == fields
