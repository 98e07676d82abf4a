# SPDX-License-Identifier: Apache-2.0
"""The context of one request, in the API and over RPC: the user and their rights."""

from collections.abc import Mapping
from typing import Any

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
    'role_ids',
    'granted',
)


class RequestContext(context.RequestContext):
    """The user, project and roles of a request.

    RPC carries the user's token, so that the manager can create a trust with it. Only
    keystonemiddleware reads a service token: the context has its roles, not the token.

    :param own_token: whether the token is the user's own in a project, and was not delegated
    :param trust_id: the trust by which the token was issued. Only its trustee gets such tokens, so
        one of a lease shows that the lease service itself began what the request is a part of.
    :param role_ids: names of the roles of the token -> their ids; None: there is no token
    :param granted: the rules that the API has enforced with success -> the project of what they
        were enforced on; None: the request does not come from the API
    :param reply_seconds: how long the caller waited for the answer when it sent the request; None:
        it does not say
    """

    FROM_DICT_EXTRA_KEYS = [*_ALSO_CARRIED, 'reply_seconds']

    def __init__(
        self,
        *args: Any,
        own_token: bool = False,
        trust_id: str | None = None,
        role_ids: Mapping[str, str] | None = None,
        granted: Mapping[str, str | None] | None = None,
        reply_seconds: float | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.pop('service_token', None)
        super().__init__(*args, **kwargs)
        self.own_token = own_token
        self.trust_id = trust_id
        self.role_ids = role_ids
        self.granted = None if granted is None else dict(granted)
        self.reply_seconds = reply_seconds

    def grant(self, rule: str, project_id: str | None) -> None:
        """Record that the policy allows a rule on what belongs to a project."""
        self.granted = {**(self.granted or {}), rule: project_id}

    def may(self, rule: str, project_id: str | None) -> bool:
        """Return whether the policy allowed a rule on what belongs to a project.

        The manager checks this for each object that it loads. The check rejects a caller that
        enforced the policy on another object, or on none. It is no protection against a sender of
        RPC messages, who chooses the whole context.
        """
        if self.granted is None:
            return self.project_id == project_id or 'admin' in self.roles
        return rule in self.granted and self.granted[rule] == project_id

    def may_operate(self, rule: str) -> bool:
        """Return whether the policy allowed a rule on what belongs to no project."""
        return 'admin' in self.roles if self.granted is None else rule in self.granted

    @property
    def is_delegated(self) -> bool:
        """Return whether the token is known to be delegated: its user may have more roles."""
        return self.role_ids is not None and not self.own_token

    @property
    def by_service(self) -> bool:
        """Return whether a service of the cloud asks for a user, with its own token, too."""
        return 'service' in (self.service_roles or ())

    def to_dict(self) -> dict[str, Any]:
        """Return what RPC carries: JSON types only, the inverse of ``from_dict``."""
        values = super().to_dict()
        values.update((name, getattr(self, name)) for name in _ALSO_CARRIED)
        return values


def of_event(event_id: str, lease_id: str) -> RequestContext:
    """Create the context of the work on an event, and set it for this thread.

    The log and the calls to other services carry its request id from then on.

    :param event_id: a UUID; the request id is ``req-<event_id>``
    """
    return RequestContext(
        request_id=event_request_id(event_id), resource_uuid=lease_id, overwrite=True
    )


def event_request_id(event_id: str) -> str:
    """Return the request id of the work on an event."""
    return f'req-{event_id}'


class RpcSerializer:
    """Carry :class:`RequestContext` over oslo.messaging; values are JSON types already.

    :ivar reply_seconds: how long this client waits for answers; None: it does not wait
    """

    def __init__(self) -> None:
        self.reply_seconds: float | None = None

    def serialize_entity(self, ctxt: RequestContext, entity: Any) -> Any:  # noqa: ARG002
        return entity

    def deserialize_entity(self, ctxt: RequestContext, entity: Any) -> Any:  # noqa: ARG002
        return entity

    def serialize_context(self, ctxt: RequestContext) -> dict[str, Any]:
        return {**ctxt.to_dict(), 'reply_seconds': self.reply_seconds}

    def deserialize_context(self, ctxt: Mapping[str, Any]) -> RequestContext:
        return RequestContext.from_dict(dict(ctxt))
