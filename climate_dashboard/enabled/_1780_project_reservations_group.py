# SPDX-License-Identifier: Apache-2.0
"""The group Reservations of the dashboard Project."""

from django.utils.translation import gettext_lazy as _

from climateclient import exceptions

PANEL_GROUP = 'reservations'
PANEL_GROUP_NAME = _('Reservations')
PANEL_GROUP_DASHBOARD = 'project'

ADD_INSTALLED_APPS = ['climate_dashboard']
ADD_ANGULAR_MODULES = ['horizon.climate.launch']
ADD_JS_FILES = [
    'climate_dashboard/js/climate.calendar.js',
    'climate_dashboard/js/climate.launch.js',
    'climate_dashboard/js/climate.lease_form.js',
]
ADD_SCSS_FILES = ['climate_dashboard/scss/climate.scss']
ADD_EXCEPTIONS = {
    'not_found': (exceptions.NotFound,),
    'unauthorized': (exceptions.Unauthorized,),
    'recoverable': (exceptions.ApiError, exceptions.UnexpectedAnswer),
}
