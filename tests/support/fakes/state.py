# SPDX-License-Identifier: Apache-2.0
"""The state of the fake cloud, and the journal from which it can be read back.

Every accepted change is one line of JSON in the journal, written and flushed before the answer.
"""

import json
import pathlib
import threading
import uuid
from typing import Any

Record = dict[str, Any]


class Refusal(Exception):
    """An answer of 400 or more.

    :param kind: the type of an error of Neutron
    """

    def __init__(self, status: int, message: str, kind: str = '') -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind


def owns(caller: Record, record: Record) -> bool:
    """Tell whether a record is of the caller's project, or the caller an administrator."""
    return 'admin' in caller['roles'] or record['project_id'] == caller['project_id']


class State:
    """Tables of records, users and tokens, under one lock.

    :param journal: the file; read back if it exists
    """

    def __init__(self, journal: pathlib.Path) -> None:
        self.lock = threading.RLock()
        self.servers: dict[str, Record] = {}
        self.hypervisors: dict[str, Record] = {}
        self.flavors: dict[str, Record] = {}
        self.trusts: dict[str, Record] = {}
        self.images: dict[str, Record] = {}
        self.volumes: dict[str, Record] = {}
        self.attachments: dict[str, Record] = {}
        self.backups: dict[str, Record] = {}
        self.snapshots: dict[str, Record] = {}
        self.transfers: dict[str, Record] = {}
        self.stacks: dict[str, Record] = {}
        self.floatingips: dict[str, Record] = {}
        self.networks: dict[str, Record] = {}
        self.network_ports: dict[str, Record] = {}
        self.subnets: dict[str, Record] = {}
        self.routers: dict[str, Record] = {}
        self.trunks: dict[str, Record] = {}
        #: What Neutron knows, and the ranges that it chooses from; None: it does not show them.
        self.network_types = ['vlan', 'vxlan']
        self.physical_networks = ['physnet1', 'physnet2']
        self.segment_ranges: list[Record] | None = None
        #: So many floating IPs, and so many networks, a project may have.
        self.network_quota = 10
        self.stack_snapshots: dict[str, Record] = {}
        self.tokens: dict[str, Record] = {}
        self.faults: list[Record] = []
        #: Every request since the start: (method, path, status).
        self.requests: list[tuple[str, str, int]] = []
        self.queries: list[tuple[str, dict[str, list[str]]]] = []
        #: The X-OpenStack-Request-ID of each of them, in the same order.
        self.request_ids: list[str | None] = []
        self.users: dict[str, Record] = {}
        #: Whether this cloud has no block storage.
        self.no_cinder = False
        #: Whether it has no orchestration.
        self.no_heat = False
        #: Type -> path of services that tests add.
        self.more_services: dict[str, str] = {}
        #: See :class:`tests.support.fakes.limits.Limits`.
        self.limits: Any = None
        #: See :mod:`tests.support.fakes.placement`.
        self.placement: Any = None
        self._journal = journal
        if journal.exists():
            self._read_back()
        self._file = journal.open('a', encoding='utf-8')
        self.user('climate', 'secret', 'service', ['admin', 'service'])
        self.user('alice', 'secret', 'demo', ['member', 'reader'])
        self.user('bob', 'secret', 'other', ['member', 'reader'])

    def user(self, name: str, password: str, project: str, roles: list[str]) -> Record:
        """Add a user with roles in one project; ids are names with a suffix."""
        record = {
            'id': f'{name}-id',
            'name': name,
            'password': password,
            'project_id': f'{project}-id',
            'roles': roles,
            'enabled': True,
        }
        self.users[record['id']] = record
        return record

    def token(self, user: Record, project_id: str, roles: list[str], trust: str | None) -> str:
        """Issue a token."""
        value = uuid.uuid4().hex
        self.tokens[value] = {
            'user_id': user['id'],
            'project_id': project_id,
            'roles': roles,
            'trust_id': trust,
        }
        return value

    def put(self, table: str, record: Record, entry: Record) -> None:
        """Keep a record and write why; ``entry`` is what the tests read."""
        getattr(self, table)[record['id']] = record
        self._write({**entry, 'change': [table, record['id'], record]})

    def drop(self, table: str, key: str, entry: Record) -> None:
        """Forget a record and write why."""
        del getattr(self, table)[key]
        self._write({**entry, 'change': [table, key, None]})

    def journal(self) -> list[Record]:
        """Return the accepted changes, oldest first, without the records."""
        with self._journal.open(encoding='utf-8') as lines:
            entries = [json.loads(line) for line in lines]
        return [{k: v for k, v in entry.items() if k != 'change'} for entry in entries]

    def file(self, name: str) -> pathlib.Path:
        """Return the path of a file beside the journal, for a fake that keeps its own."""
        return self._journal.with_name(f'{self._journal.name}.{name}')

    def close(self) -> None:
        self._file.close()

    def _write(self, entry: Record) -> None:
        self._file.write(json.dumps(entry) + '\n')
        self._file.flush()

    def _read_back(self) -> None:
        with self._journal.open(encoding='utf-8') as lines:
            for line in lines:
                table, key, record = json.loads(line)['change']
                if record is None:
                    getattr(self, table).pop(key, None)
                else:
                    getattr(self, table)[key] = record
