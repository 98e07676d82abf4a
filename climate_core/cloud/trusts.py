# SPDX-License-Identifier: Apache-2.0
"""Keystone trusts: the rights that the owner of a lease delegates to the service.

Facts from the Identity API v3 (OS-TRUST): the trustor creates a trust with their own token. The
trustor, also with a token of the trust, and an administrator may delete it. The trustee may list
the trusts that are delegated to it. A trust has no time of creation. Keystone 30 answers 401 to a
request for a token of a deleted trust.
"""

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.cloud.connections import Cloud, Connection
from climate_core.cloud.services import Service
from climate_core.db.trusts import TrustScope

if TYPE_CHECKING:
    import requests

    from climate_core.context import RequestContext

_PATH = '/OS-TRUST/trusts'
_KEYSTONE = Service('Keystone', 'identity', '3')

#: Advice for users whose token must not create trusts. Nova cuts the fault of a server.
_DELEGATED: Final = (
    'Use a token that was issued for a password or by single sign-on. Application credentials '
    'need allow_insecure_application_credential_trust_escalation of keystone.conf. Every lease '
    'and feed needs a trust'
)

#: Roles of administrators whose names do not contain "admin".
_ADMINISTRATIVE: Final = frozenset({'manager', 'service'})


class Trusts:
    """The trusts that are delegated to the service user."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    def create(self, context: 'RequestContext', roles: Sequence[str] | None = None) -> str:
        """Create a trust from the user of a request to the service user; return its id.

        The service may act as this user in this project until the trust is deleted.

        :param roles: names of the delegated roles; default: ``[cloud] trust_roles``
        :raises climate_core.exceptions.Forbidden: Keystone does not let this token delegate, as
            with application credentials
        :raises climate_core.exceptions.ServiceUnavailable: Keystone does not answer
        """
        if roles is None:
            roles = self._roles(context)
        with _explain_delegation(context), errors.for_user():
            response = self._request_trust(context, self._cloud.service_user_id(), roles)
            return str(errors.read_response(response, _KEYSTONE.name, 'trust')['id'])

    def check(self, context: 'RequestContext') -> None:
        """Raise the exceptions of :meth:`create` without creating a trust.

        It requests a trust to a user that does not exist: Keystone checks the token first, in all
        releases (keystone/api/trusts.py). A user's own token may create trusts and needs no check.
        """
        roles = self._roles(context)
        if context.own_token:
            return
        with _explain_delegation(context), errors.for_user():
            with contextlib.suppress(errors.Gone):
                errors.check_response(
                    self._request_trust(context, uuid.uuid4().hex, roles), _KEYSTONE.name
                )
            if context.trust_id is not None:
                path = f'{_PATH}/{context.trust_id}'
                trust = _KEYSTONE.read(self._cloud.user(context), path, 'trust')
                given = {role['name'] for role in trust['roles']}
                if not trust.get('redelegation_count') or not given.issuperset(roles):
                    raise exceptions.Forbidden(
                        f'The trust {context.trust_id} of the token allows no other trust with '
                        f'the roles {", ".join(roles)}.'
                    )

    def scope(self, context: 'RequestContext') -> TrustScope | None:
        """Return the scope of a trust of this request; None if no other lease may share the trust.

        :raises climate_core.exceptions.Forbidden: the token has no role that may be delegated
        :raises climate_core.exceptions.ServiceUnavailable: Keystone does not answer
        """
        roles = tuple(sorted(set(self._roles(context))))
        if not (context.own_token and context.user_id and context.project_id):
            return None
        with errors.for_user():
            trustee_id = self._cloud.service_user_id()
        return TrustScope(context.user_id, context.project_id, trustee_id, roles)

    def delete(self, trust_id: str) -> None:
        """Delete a trust, as the service or else as the owner. It may be deleted already.

        :raises climate_core.exceptions.Permanent: Keystone rejects the deletion
        """
        try:
            self._delete(self._cloud.service(), trust_id)
        except errors.Forbidden:
            self._delete_as_owner(trust_id)

    def roles(self, trust_id: str) -> Sequence[str]:
        """Return the names of the roles that a trust delegates now.

        :raises climate_core.cloud.errors.TrustRejected: the trust, its owner or a delegated role
            no longer exists
        :raises climate_core.exceptions.Transient: Keystone does not answer
        """
        return self._cloud.roles(trust_id)

    def list_own(self) -> Iterator[str]:
        """Yield the ids of all trusts that are delegated to the service user."""
        query = {'trustee_user_id': self._cloud.service_user_id()}
        for trust in _KEYSTONE.read(self._cloud.service(), _PATH, 'trusts', query):
            yield str(trust['id'])

    def _request_trust(
        self, context: 'RequestContext', trustee_id: str, roles: Sequence[str]
    ) -> 'requests.Response':
        body = {
            'trustor_user_id': context.user_id,
            'trustee_user_id': trustee_id,
            'project_id': context.project_id,
            'impersonation': True,
            'roles': [_role_reference(context, role) for role in roles],
        }
        return _KEYSTONE.send(self._cloud.user(context), 'POST', _PATH, {'trust': body})

    def _roles(self, context: 'RequestContext') -> list[str]:
        """Return the roles of a token that a trust delegates.

        :raises climate_core.exceptions.Forbidden: there are no such roles
        """
        wanted = self._cloud.conf.cloud.trust_roles
        roles = [
            name
            for name in context.roles
            if (name in wanted if wanted else not is_administrative(name))
        ]
        if not roles:
            accepted = (
                f'one of {", ".join(wanted)}'
                if wanted
                else 'a non-administrator role, such as member'
            )
            raise exceptions.Forbidden(
                'The token has no role that can be delegated to the lease service. It must have '
                f'{accepted} ([cloud] trust_roles of climate.conf).'
            )
        return roles

    def _delete_as_owner(self, trust_id: str) -> None:
        try:
            owner = self._cloud.owner(trust_id)
        except errors.TrustRejected as exc:
            raise exceptions.Permanent(
                f'the trust {trust_id} is no longer used, and only an administrator may delete '
                f'it: {exc}'
            ) from exc
        self._delete(owner, trust_id)

    @staticmethod
    def _delete(conn: Connection, trust_id: str) -> None:
        with contextlib.suppress(errors.Gone):
            _KEYSTONE.request(conn, 'DELETE', f'{_PATH}/{trust_id}')


@contextlib.contextmanager
def _explain_delegation(context: 'RequestContext') -> Iterator[None]:
    """Add advice to the error if Keystone rejects a delegated token."""
    try:
        yield
    except exceptions.Forbidden as exc:
        if context.own_token:
            raise
        raise exceptions.Forbidden(f'{_DELEGATED}: {exc.message}') from exc


def _role_reference(context: 'RequestContext', role: str) -> dict[str, str]:
    """Return a role in a trust, by id: several domains may have a role of the same name."""
    role_id = (context.role_ids or {}).get(role)
    return {'name': role} if role_id is None else {'id': role_id}


def is_administrative(role: str) -> bool:
    """Return whether a role is delegated only if ``[cloud] trust_roles`` lists it."""
    return role.lower() in _ADMINISTRATIVE or 'admin' in role.lower()
