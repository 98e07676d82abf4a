# SPDX-License-Identifier: Apache-2.0
"""What the threads of an RPC server do while nothing is asked."""

import threading
import time
from typing import Any

import oslo_messaging as messaging

from climate_core.threads import MessageServer
from tests.support.world import configure


class _Endpoint:
    def call(self, _ctxt: Any) -> tuple[str, str]:
        thread = threading.current_thread()
        return thread.name, type(thread).__module__


def test_call_runs_in_a_thread_that_is_not_woken_while_it_is_idle() -> None:
    transport = messaging.get_rpc_transport(configure('sqlite://'), 'fake:/')
    target = messaging.Target(topic='idle', server='one')
    made = messaging.get_rpc_server(transport, target, [_Endpoint()], executor='threading')
    server = MessageServer('rpc', made)
    server.start()
    try:
        client = messaging.get_rpc_client(transport, messaging.Target(topic='idle'))
        name, module = client.call({}, 'call')
    finally:
        server.stop()
        stopped = server.wait(time.monotonic() + 60)
    # Threads of futurist look for work once a second.
    assert (name.partition('_')[0], module, stopped) == ('rpc', 'threading', True)
