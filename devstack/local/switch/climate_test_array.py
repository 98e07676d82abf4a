# SPDX-License-Identifier: Apache-2.0
"""The storage array of the local cloud: it keeps no bytes, and has every image already.

Cinder's fake driver makes no volume of an image: it fails when bytes are to be written. An array
that clones images by itself, as Ceph does, is not asked to.
"""

from cinder.tests import fake_driver


class TestArray(fake_driver.FakeLoggingVolumeDriver):
    """Say that an image was cloned."""

    def clone_image(self, *_image_and_volume):
        return {}, True
