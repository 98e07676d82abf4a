# SPDX-License-Identifier: Apache-2.0
"""The context of one request, in the API and over RPC: the user and their rights."""

from collections.abc import Mapping
from typing import Any, Final

from oslo_context import context

#: What oslo.context reads back in ``from_dict`` or accepts in its constructor, but does not
#: write in ``to_dict``.
_ALSO_CARRIED = (
    'user_name',
    'project_name',
    'domain_name',
    'user_domain_name',
    'project_domain_name',
    'service_user_id',
    'service_project_id',
    'service_roles',
    'own_token',
    'trust_id',
)


#: Of a token of which it is not known whether a trust issued it.
UNKNOWN_TRUST: Final = 'unknown'


class RequestContext(context.RequestContext):
    """The user, project and roles of a request.

    The user's token is carried over RPC, so that the manager can make a trust with it. A service
    token is only looked at by keystonemiddleware: its roles are kept, the token is not.

    :param own_token: whether the token is known to be the user's own in a project, and not one
        that was delegated. An API of the release before does not say so.
    :param trust_id: the trust by which the token was issued. Only its trustee gets such tokens, so
        one of a lease shows that the lease service itself began what the request is a part of.
        :data:`UNKNOWN_TRUST` over RPC from an API of the release before
    """

    FROM_DICT_EXTRA_KEYS = [
        'service_user_id',
        'service_project_id',
        'service_roles',
        'own_token',
        'trust_id',
    ]

    def __init__(
        self,
        *args: Any,
        own_token: bool | None = False,
        trust_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.pop('service_token', None)
        super().__init__(*args, **kwargs)
        self.own_token = bool(own_token)
        self.trust_id = trust_id

    @property
    def by_service(self) -> bool:
        """Return whether a service of the cloud asks for a user, with its own token, too."""
        return 'service' in (self.service_roles or ())

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], **kwargs: Any) -> 'RequestContext':
        context: RequestContext = super().from_dict(
            {'trust_id': UNKNOWN_TRUST, **values}, **kwargs
        )
        return context

    def to_dict(self) -> dict[str, Any]:
        """Return what RPC carries: JSON types only, the inverse of ``from_dict``."""
        values = super().to_dict()
        values.update((name, getattr(self, name)) for name in _ALSO_CARRIED)
        return values


def of_event(event_id: str, lease_id: str) -> RequestContext:
    """Make the context of the work on an event, and the one of this thread.

    The log and the calls to other services carry its request id from then on.

    :param event_id: a UUID; the request id is ``req-<event_id>``
    """
    return RequestContext(
        request_id=event_request_id(event_id), resource_uuid=lease_id, overwrite=True
    )


def event_request_id(event_id: str) -> str:
    """Return the request id under which an event is worked on."""
    return f'req-{event_id}'


class RpcSerializer:
    """Carry :class:`RequestContext` over oslo.messaging; values are JSON types already."""

    def serialize_entity(self, ctxt: RequestContext, entity: Any) -> Any:  # noqa: ARG002
        return entity

    def deserialize_entity(self, ctxt: RequestContext, entity: Any) -> Any:  # noqa: ARG002
        return entity

    def serialize_context(self, ctxt: RequestContext) -> dict[str, Any]:
        return ctxt.to_dict()

    def deserialize_context(self, ctxt: Mapping[str, Any]) -> RequestContext:
        return RequestContext.from_dict(dict(ctxt))
