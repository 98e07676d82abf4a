# SPDX-License-Identifier: Apache-2.0
import types
from typing import Any

import pytest
from climate_cloud import content


class Cinder:
    """The types of volumes, each with the backend that it is bound to, if it is."""

    def __init__(self, **backends: str | None) -> None:
        self.types = {name: self._type(name, backend) for name, backend in backends.items()}
        self.written: dict[str, str] = {}

    @staticmethod
    def _type(name: str, backend: str | None = None) -> Any:
        specs = {'volume_backend_name': backend} if backend else {}
        return types.SimpleNamespace(name=name, extra_specs=specs)

    def find_type(self, name: str, ignore_missing: bool = True) -> Any:
        return self.types.get(name) if ignore_missing else self.types[name]

    def create_type(self, name: str) -> Any:
        return self._type(name)

    def update_type_extra_specs(self, one: Any, volume_backend_name: str) -> None:
        self.written[one.name] = volume_backend_name


@pytest.mark.parametrize(
    ('there', 'written'),
    [
        ({'__DEFAULT__': None}, {'__DEFAULT__': 'fake', 'ceph': 'ceph'}),
        ({'__DEFAULT__': 'fake', 'ceph': None}, {'ceph': 'ceph'}),
        ({'__DEFAULT__': 'fake', 'ceph': 'ceph'}, {}),
    ],
)
def test_types_of_volumes_are_bound_once(there: dict, written: dict) -> None:
    """With volumes of a type Cinder takes no change of it, not even the same once more."""
    cinder = Cinder(**there)
    content.make_volume_types(types.SimpleNamespace(block_storage=cinder))
    assert cinder.written == written
