# SPDX-License-Identifier: Apache-2.0

import docutils.core

from climate_core.api import reference, routes


def test_every_route_is_described() -> None:
    text = reference.rst()
    for path, methods in routes.ROUTES.items():
        for method, route in methods.items():
            assert f'\n{method} {path}\n---' in '\n' + text
            assert route.handler.__doc__


def test_fields_are_named_by_their_path() -> None:
    text = reference.rst()
    for field in ('name', 'events[].event_type', 'lease.reservations[].resource_id', 'generation'):
        assert f'``{field}``' in text


def test_it_is_restructuredtext() -> None:
    page = 'Reference\n=========\n\n' + reference.rst()
    settings = {'halt_level': 2, 'report_level': 2}
    assert docutils.core.publish_string(page, settings_overrides=settings, writer_name='html')


def test_parameters_and_errors_are_told() -> None:
    text = reference.rst()
    assert '* - ``resource_id``' in text
    assert '* - ``marker``' in text
    assert ':Errors: 400, 401, 403, 404, 406, 409, 413, 415, 503' in text
