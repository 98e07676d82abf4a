# SPDX-License-Identifier: Apache-2.0

import json

from climate_core.context import RequestContext, RpcSerializer


def context() -> RequestContext:
    return RequestContext(
        auth_token='token',
        user_id='user',
        user_name='Alice',
        project_id='project',
        project_name='ours',
        user_domain_id='default',
        project_domain_id='default',
        roles=['member', 'reader'],
        service_roles=['service'],
        service_token='of the service',
        global_request_id='req-1',
        own_token=True,
        trust_id='trust',
        role_ids={'member': '1', 'reader': '2'},
        granted={'climate:leases:update': 'project'},
    )


def test_rpc_carries_all_of_it() -> None:
    sent = json.loads(json.dumps(RpcSerializer().serialize_context(context())))
    received = RpcSerializer().deserialize_context(sent)
    assert received.to_dict() == context().to_dict() | {'request_id': received.request_id}
    assert received.auth_token == 'token'
    assert received.roles == ['member', 'reader']
    assert received.service_roles == ['service']
    assert received.own_token is True
    assert received.role_ids == {'member': '1', 'reader': '2'}
    assert received.trust_id == 'trust'
    assert received.may('climate:leases:update', 'project')


def test_rpc_carries_for_how_long_the_caller_waits() -> None:
    serializer = RpcSerializer()
    serializer.reply_seconds = 60.0
    sent = json.loads(json.dumps(serializer.serialize_context(context())))
    assert serializer.deserialize_context(sent).reply_seconds == 60.0


def test_context_of_no_api_changes_what_belongs_to_its_project() -> None:
    sent = RpcSerializer().serialize_context(context())
    del sent['granted'], sent['reply_seconds']
    received = RpcSerializer().deserialize_context(sent)
    assert received.reply_seconds is None
    assert received.may('climate:leases:update', 'project')
    assert not received.may('climate:leases:update', 'other')
    assert not received.may_operate('climate:hosts:create')
    received.roles = ['admin']
    assert received.may('climate:leases:update', 'other')
    assert received.may_operate('climate:hosts:create')


def test_the_service_token_is_not_kept() -> None:
    assert context().service_token is None
    assert 'of the service' not in json.dumps(context().to_dict())


def test_the_token_is_not_logged() -> None:
    assert context().get_logging_values()['auth_token'] == '***'
