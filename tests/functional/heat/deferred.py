# SPDX-License-Identifier: Apache-2.0
"""A stack with something that waits for its servers."""

from tests.functional.heat.reserved import ReservedTest
from tests.functional.heat.templates import PAIR, SERVER, added, without

ATTACHED = added(
    added(without(PAIR, 'server'), 'server', 'OS::Nova::Server', **SERVER),
    'attachment', 'OS::Cinder::VolumeAttachment',
    instance_uuid={'get_resource': 'server'}, volume_id={'get_resource': 'disk'},
)  # fmt: skip


class DeferredTest(ReservedTest):
    def data(self, stack, name):
        return self.resource(stack, name).data()
