# SPDX-License-Identifier: Apache-2.0
"""What the hypervisor is given when a reserved server starts."""

from tests.functional.nova.base import NovaTest


class Spawned:
    """What nova-compute gives to the hypervisor, noted on its way to nova's fake driver."""

    def __init__(self, driver):
        self.calls = []
        self.fail_with = None
        self._spawn = driver.spawn
        driver.spawn = self

    def __call__(self, context, instance, image_meta, files, password, *args, **kwargs):
        self.calls.append(
            {'instance': instance, 'files': files, 'password': password, 'image': image_meta}
            | kwargs
        )
        if self.fail_with is not None:
            raise self.fail_with
        return self._spawn(context, instance, image_meta, files, password, *args, **kwargs)

    @property
    def last(self):
        return self.calls[-1]


class WakeUpTest(NovaTest):
    def setUp(self):
        super().setUp()
        self.spawned = Spawned(self.compute.manager.driver)
