# SPDX-License-Identifier: Apache-2.0
"""The table of leases."""

from typing import Any

from django.utils.translation import gettext_lazy as _
from horizon import exceptions, messages, tables

from climate_dashboard import api, words
from climate_dashboard.leases import actions, columns
from climateclient import exceptions as client_exceptions
from climateclient.models import Lease

DETAIL = 'horizon:project:climate_leases:detail'


class LeaseRow(tables.Row):
    """A row that is asked for again while its lease is about to change."""

    ajax = True

    def get_data(self, request: Any, lease_id: str) -> Lease:
        return api.client(request).leases.get(lease_id)


class LeaseFilter(tables.FilterAction):
    """Choose the leases that are listed."""

    filter_type = 'server'
    filter_choices = (
        ('name', _('Name ='), True),
        ('status', _('Status ='), True, _('WAITING, PENDING, ACTIVE, TERMINATED, ERROR ...')),
        ('resource_id', _('ID of a Resource ='), True),
    )


class LeasesTable(tables.DataTable):
    """The leases of a project."""

    name = tables.Column('name', verbose_name=_('Name'), link=DETAIL)
    status = tables.Column(columns.status, verbose_name=_('Status'))
    start = columns.TimeColumn('start_date', verbose_name=_('Start'))
    end = columns.TimeColumn('end_date', verbose_name=_('End'))
    resources = tables.Column(
        lambda lease: words.counted(lease.reservations), verbose_name=_('Resources')
    )
    movement = tables.Column(
        columns.movement, hidden=True, status=True, status_choices=columns.MOVEMENTS
    )

    class Meta:
        name = 'leases'
        verbose_name = _('Leases')
        row_class = LeaseRow
        status_columns = ['movement']
        pagination_param = 'marker'
        prev_pagination_param = 'prev_marker'
        table_actions = (LeaseFilter, actions.CreateLease, actions.EndLease)
        row_actions = (
            actions.StartLease,
            actions.ExtendLease,
            actions.ShortenLease,
            actions.EndLease,
        )

    def get_object_by_id(self, lookup: str) -> Lease:
        """Return a lease, also one of another page: the page of a lease sends its buttons here."""
        try:
            return super().get_object_by_id(lookup)
        except exceptions.Http302:
            try:
                return api.client(self.request).leases.get(lookup)
            except client_exceptions.ApiError as error:
                text = _('The lease cannot be changed: %s') % api.error_text(error)
                messages.error(self.request, text)
            raise
