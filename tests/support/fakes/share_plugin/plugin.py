# SPDX-License-Identifier: Apache-2.0
"""A share of Manila, which is exported from the start to the end of its lease."""

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.packages import ReservationPackage
from climate_core.plugins import own_service_plugin
from climate_core.plugins.base import PollAgain, ReservedResource
from climate_core.plugins.step_context import EndContext, StepContext
from tests.support.fakes.share_plugin import calls

if TYPE_CHECKING:
    from climate_core.context import RequestContext

_END_ACTIONS = {'delete': 'Delete it.', 'nothing': 'Leave it as it is.'}


class SharePackage(ReservationPackage):
    """Declare nothing beside the plugin."""

    name = 'shares'


class SharePlugin(own_service_plugin.OwnServicePlugin):
    """Reserve shares that no address has access to."""

    resource_type = 'virtual:share'
    title = 'Share'
    description = 'A share that is exported when its lease starts.'
    service = 'manila'
    rank = 10
    options = (own_service_plugin.on_end_option(_END_ACTIONS, 'share'),)
    schema = {
        **own_service_plugin.end_action_schema(_END_ACTIONS),
        'access_to': {'type': 'string', 'format': 'ip'},
    }
    calls = calls
    gone_reason = 'The share was deleted'

    def reserve(
        self,
        context: 'RequestContext',
        values: Mapping[str, Any],
        lease_id: str = '',
    ) -> ReservedResource:
        user, share_id = self.cloud.user(context), values['resource_id']
        with errors.for_user('resource_id'):
            share = calls.get(user, share_id)
            if calls.read_project(share) != context.project_id:
                raise errors.Gone(f'There is no share {share_id} in this project.')
            if calls.list_access(user, share_id):
                raise exceptions.BadRequest(
                    f'resource_id: must be a share without access rules, not {share_id}.',
                    field='resource_id',
                )
        params = {
            **self._normalized_params(values),
            'access_to': values.get('access_to', '0.0.0.0/0'),
        }
        return ReservedResource(share['id'], params, {'gigabytes': share['size']})

    def _wake(self, context: StepContext, share: Mapping[str, Any]) -> PollAgain | None:
        context = context.observe(share['status'], share['access_rules_status'])
        if share['status'] == 'deleting':
            raise errors.Gone(self.gone_reason)
        if not calls.list_access(context.conn, context.resource_id):
            address = context.reservation.params['access_to']
            return context.once(
                'allow_access',
                'Manila could not export the share.',
                lambda: calls.allow_access(context.conn, context.resource_id, address),
            )
        if share['access_rules_status'] == 'error':
            raise exceptions.Permanent('Manila could not export the share.')
        return None if share['access_rules_status'] == 'active' else context.wait()

    def _end(self, context: EndContext, share: Mapping[str, Any]) -> PollAgain | None:
        context = context.observe(share['status'])
        if share['status'] == 'deleting':
            return context.wait('The share has been deleting')
        is_exported = bool(calls.list_access(context.conn, context.resource_id))
        if context.on_end == 'nothing' and is_exported:
            return None
        return context.once(
            'delete',
            f'Manila could not delete the share, which is {share["status"]}.',
            lambda: calls.delete(context.conn, context.resource_id),
        )

    def _reserved_since(self, share: Mapping[str, Any]) -> datetime.datetime | None:
        return None
