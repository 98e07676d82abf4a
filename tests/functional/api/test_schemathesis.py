# SPDX-License-Identifier: Apache-2.0
"""Requests that nobody thought of, from the OpenAPI document: every call, good and bad data.

Nothing may be answered with 5xx, with a status or a body that the document does not have, and
what breaks the document must be refused.
"""

import contextlib
import itertools
import uuid
from collections.abc import Iterator
from typing import Any

import hypothesis
import hypothesis.errors
import pytest
import schemathesis
import webob
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS

from climate_core.api import routes
from climate_core.db.engine import Database
from climate_networks.plugins.floatingips import FloatingIpPlugin
from climate_networks.plugins.networks import NetworkPlugin
from tests.functional.api import world
from tests.support.fakes import cloud_server, hypervisors, neutron, settings

#: In any order, so that some leases have an end after their start.
DATES = [
    'now',
    '2098-01-01 10:00',
    '2098-01-01 12:30:15',
    '2099-01-01T10:00:00+01:00',
    '2099-12-31T23:59:59.5Z',
]
#: What depends on other parts of a new lease, or on what was sent before.
TIMES = {'id', 'duration', 'events', 'before_end_date', 'before_end_notification', 'webhook'}
SETTINGS = hypothesis.settings(
    max_examples=25,
    derandomize=True,
    database=None,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
    suppress_health_check=list(hypothesis.HealthCheck),
)
#: May ask about every project.
ADMIN = {'X-Roles': 'admin,member,reader'}
#: Not looked at: everybody is believed here, with or without a token; and what the document allows
#: may still be refused, as an end that is before its start.
EXCLUDED = ('ignored_auth', 'positive_data_acceptance')
#: The last numbers of addresses that are registered.
_NUMBERS = itertools.count(20)
OPERATIONS = [
    pytest.param(path, method, id=f'{method} {path}')
    for path, methods in routes.ROUTES.items()
    for method in methods
]


@pytest.fixture(scope='module')
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cloud_server.Server]:
    with cloud_server.running(tmp_path_factory.mktemp('cloud') / 'journal') as server:
        yield server


@pytest.fixture(scope='module')
def application(
    tmp_path_factory: pytest.TempPathFactory, cloud: cloud_server.Server
) -> Iterator[Any]:
    options = settings.cloud_options(cloud.url).items()
    directory = tmp_path_factory.mktemp('fuzz')
    conf = world.configure(directory, *(('cloud', name, value) for name, value in options))
    plugins = (FloatingIpPlugin, NetworkPlugin)
    for each in plugins:
        conf.register_opts(each.options, group=each.resource_type)
    with world.running(conf, Database(conf), *plugins) as made:
        yield made


@pytest.fixture(scope='module')
def document(application: Any) -> schemathesis.BaseSchema:
    schemathesis.openapi.format('date-or-now', st.sampled_from(DATES))
    described = webob.Request.blank('/v1/openapi.json').get_response(application).json
    # Everybody is believed here, with or without a token.
    del described['security']
    schema = schemathesis.openapi.from_dict(described)
    schema.app = application
    refusals = schema.config.checks.negative_data_rejection
    # Too much of it is refused before it is read.
    refusals.expected_statuses = [*refusals.expected_statuses, 413]
    return schema


@pytest.fixture
def excluded() -> list[Any]:
    schemathesis.checks.load_all_checks()
    return [check for check in CHECKS.get_all() if check.__name__ in EXCLUDED]


@pytest.fixture
def known(
    request: pytest.FixtureRequest, application: Any, cloud: cloud_server.Server
) -> dict[str, str]:
    """Set the variables of a path to what is there, at first."""
    if 'os-hosts' in request.node.callspec.params['path']:
        name = uuid.uuid4().hex
        hypervisors.add(cloud.state, name)
        body = {'name': name, 'rack': '7'}
        host = world.ask(application, 'POST', '/v1/os-hosts', body, ADMIN, 201).json['host']
        return {'host_id': host['id'], 'property_name': 'rack', 'pool_name': host['pool']}
    if 'floatingips' in request.node.callspec.params['path']:
        address = f'203.0.113.{next(_NUMBERS)}'
        body = {'floating_network_id': neutron.PUBLIC, 'floating_ip_address': address}
        made = world.ask(application, 'POST', '/v1/floatingips', body, ADMIN, 201)
        return {'floatingip_id': made.json['floatingip']['id']}
    if 'networks' in request.node.callspec.params['path']:
        body = {'network_type': 'vxlan', 'segment_id': next(_NUMBERS), 'rack': '7'}
        made = world.ask(application, 'POST', '/v1/networks', body, ADMIN, 201)
        return {'network_id': made.json['network']['id'], 'property_name': 'rack'}
    if {'feeds', 'leases.ics'} & {*request.node.callspec.params['path'].split('/')}:
        # Each test has its own, as a user may have a few.
        user = {**ADMIN, 'X-User-Id': uuid.uuid4().hex}
        feed = world.ask(application, 'POST', '/v1/feeds', {'name': 'n'}, user, 201).json['feed']
        return {'feed_id': feed['id'], 'token': feed['token']}
    values = {
        'name': 'n',
        'start_date': '2098-01-01 10:00',
        'end_date': '2099-01-01 10:00',
        'reservations': [{'resource_type': 'test:thing', 'resource_id': str(uuid.uuid4())}],
    }
    lease = world.ask(application, 'POST', '/v1/leases', values).json['lease']
    return {'lease_id': lease['id'], 'reservation_id': lease['reservations'][0]['id']}


@pytest.mark.parametrize(('path', 'method'), OPERATIONS)
@pytest.mark.parametrize('mode', [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=str)
def test_every_call_answers_as_the_openapi_document_says(
    document: schemathesis.BaseSchema,
    excluded: list[Any],
    known: dict[str, str],
    path: str,
    method: str,
    mode: GenerationMode,
) -> None:
    operation = document[path][method]
    if mode is GenerationMode.NEGATIVE and not has_input(operation):
        # There is nothing that could be wrong with it.
        mode = GenerationMode.POSITIVE

    @SETTINGS
    @hypothesis.given(operation.as_strategy(generation_mode=mode), st.booleans())
    def call(case: schemathesis.Case, there: bool) -> None:
        if there and mode is GenerationMode.POSITIVE:
            case.path_parameters.update({name: known[name] for name in case.path_parameters})
            if path == '/v1/leases.ics':
                case.query['token'] = known['token']
            if (method, path) == ('POST', '/v1/leases'):
                case.body = possible(case.body)
        case.call_and_validate(excluded_checks=excluded, headers=ADMIN)

    call()


def possible(body: dict[str, Any]) -> dict[str, Any]:
    """Draw a new lease whose times fit together; most that fit the schema do not."""
    kept = {name: value for name, value in body.items() if name not in TIMES}
    return kept | {'start_date': '2098-01-01 10:00', 'end_date': '2099-01-01 10:00'}


def has_input(operation: schemathesis.APIOperation) -> bool:
    return bool(list(operation.iter_parameters()) or operation.body)


def test_what_follows_from_an_answer(
    document: schemathesis.BaseSchema, excluded: list[Any]
) -> None:
    """Leases that are made are read, changed, ended and deleted, in any order."""
    valid: list[bool] = []

    class Machine(document.as_state_machine()):  # type: ignore[misc]
        def validate_response(
            self,
            response: Any,
            case: schemathesis.Case,
            additional_checks: Any = None,
            **more: Any,
        ) -> None:
            valid.append(False)
            # Schemathesis's own takes no checks that are left out.
            case.validate_response(
                response,
                additional_checks=additional_checks,
                excluded_checks=excluded,
                transport_kwargs=more,
            )
            valid[-1] = True

    # What can follow depends on what is there by then: the same request is answered otherwise the
    # second time. Hypothesis takes that for a fault of the strategies, and ends the search.
    with contextlib.suppress(hypothesis.errors.FlakyStrategyDefinition):
        Machine.run(settings=hypothesis.settings(SETTINGS, max_examples=15, stateful_step_count=8))
    assert valid
    assert all(valid)
