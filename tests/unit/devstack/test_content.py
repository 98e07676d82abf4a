# SPDX-License-Identifier: Apache-2.0
import threading
import types
from typing import Any

import openstack
import pytest
from climate_cloud import cloud, content


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


def upping(given_up: bool) -> Any:
    give_up = threading.Event()
    if given_up:
        give_up.set()
    processes = types.SimpleNamespace(give_up=give_up)
    return types.SimpleNamespace(connection=lambda user: user, processes=processes)


def test_neutron_may_refuse_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Exception | None] = [openstack.exceptions.ForbiddenException('not yet'), None]

    def make(_admin: Any) -> None:
        answer = answers.pop(0)
        if answer:
            raise answer

    monkeypatch.setattr(content, 'make', make)
    monkeypatch.setattr(cloud, 'LOOK_AGAIN', 0)
    cloud.Cloud._content(upping(given_up=False))
    assert answers == []


def test_what_is_refused_is_told_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(_admin: Any) -> None:
        raise openstack.exceptions.ForbiddenException('never')

    monkeypatch.setattr(content, 'make', make)
    with pytest.raises(openstack.exceptions.ForbiddenException, match='never'):
        cloud.Cloud._content(upping(given_up=True))
