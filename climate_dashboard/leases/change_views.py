# SPDX-License-Identifier: Apache-2.0
"""The pages on which a lease is created, extended and shortened."""

import datetime
from typing import Any, ClassVar, Final
from urllib import parse

from django import http, urls
from django.template import loader
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext
from horizon import exceptions, forms

from climate_common import dates, resource_types
from climate_dashboard import allowed, amounts, api, times, words
from climate_dashboard.leases import create_form, end_forms
from climate_dashboard.leases.lease_mixin import INDEX, LeaseMixin
from climateclient.models import Limit

#: Types that the calendar allocates as a whole: other leases can prevent their extension.
_OF_CALENDAR: Final = {
    resource_types.HOST,
    resource_types.FLOATING_IP,
    resource_types.NETWORK,
}
_MINUTE: Final = datetime.timedelta(minutes=1)
_OUTCOME: Final = 'climate_dashboard/leases/_outcome.html'


class CreateView(allowed.AllowedMixin, times.LocalTimeMixin, forms.ModalFormView):
    """A new lease. The form stays as it was when the service was only asked, or has refused it."""

    rule = 'climate:leases:create'
    form_class = create_form.CreateForm
    template_name = 'climate_dashboard/leases/create.html'
    page_title = _('Create Lease')
    submit_url = urls.reverse_lazy('horizon:project:climate_leases:create')
    success_url = urls.reverse_lazy(INDEX)

    def get_initial(self) -> dict[str, Any]:
        """Take times from the address: a gap of the calendar leads here."""
        given = {name: self.request.GET.get(name, '') for name in ('start', 'end')}
        return {**given, 'duration': '' if given['end'] else '4h'}

    def get_form_kwargs(self) -> dict[str, Any]:
        kwargs = super().get_form_kwargs()
        if self.request.method == 'POST':
            # Horizon's script disables buttons when one is pressed, so that their names are not
            # sent: the address says which one it was.
            asked = self.request.GET
            given = self.request.POST.dict()
            if 'start_at' in asked:
                given |= {'start': asked['start_at'], 'delay': ''}
            if 'end_at' in asked:
                given['end'] = asked['end_at']
            kwargs |= {'data': given, 'do': asked.get('do', '')}
        return kwargs

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs) | {
            'zone': times.zone_name(),
            'limits': self._limits(),
        }

    def form_invalid(self, form: Any) -> Any:
        return self.render_to_response(self.get_context_data(form=form) | _answer(form))

    def _limits(self) -> list[tuple[str, str, str]]:
        """Return name, used amount and limit of everything that the project has a limit for."""
        try:
            found = api.client(self.request).limits()
            return [_limit(each) for each in found]
        except Exception:  # noqa: BLE001
            exceptions.handle(self.request, ignore=True)
            return []


class CheckView(CreateView):
    """Answer the script of the form: whether the lease would be granted, and from when.

    One answer takes one request to the lease service.
    """

    http_method_names: ClassVar = ['post']

    def get_form_kwargs(self) -> dict[str, Any]:
        kwargs = super().get_form_kwargs()
        # A request for an answer never creates the lease.
        do = 'earliest' if kwargs['do'] == 'earliest' else 'check'
        return kwargs | {'do': do, 'lists': False}

    def form_invalid(self, form: Any) -> http.JsonResponse:
        of_fields = {name: errors for name, errors in form.errors.items() if name in form.fields}
        context = _answer(form)
        if of_fields:
            labels = [str(form[name].label) for name in of_fields]
            context |= {'level': 'info', 'incomplete': ', '.join(labels)}
        elif form.errors:
            context |= {'level': 'warning', 'rejection': ' '.join(form.non_field_errors())}
        answer = loader.render_to_string(_OUTCOME, context, self.request)
        return http.JsonResponse({'outcome': answer.strip(), 'errors': of_fields})


class ExtendView(allowed.AllowedMixin, LeaseMixin, times.LocalTimeMixin, forms.ModalFormView):
    """A later end of a lease."""

    rule = 'climate:leases:update'
    form_class: Any = end_forms.ExtendForm
    template_name = 'climate_dashboard/leases/end.html'
    page_title = modal_header = _('Extend Lease')
    submit_label = _('Extend')
    success_url = urls.reverse_lazy(INDEX)
    address = 'horizon:project:climate_leases:extend'
    refusal = _('The lease cannot be changed: %s')

    def get_initial(self) -> dict[str, Any]:
        return {'generation': self.lease.generation}

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), 'lease': self.lease}

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = super().get_context_data(**kwargs)
        context['submit_url'] = urls.reverse(self.address, args=[self.lease.id])
        context['lease'] = self.lease
        context['end'] = times.show(self.lease.end_date)
        context['zone'] = times.zone_name()
        left = self.lease.end_date and self.lease.end_date - times.now()
        context['left'] = dates.display_duration(left) if left else ''
        context['until'] = times.show(self._until())
        return context

    def _until(self) -> datetime.datetime | None:
        """Return when the units of the lease are allocated to another lease, if that is known."""
        kinds = {each.resource_type for each in self.lease.reservations}
        end = self.lease.end_date
        if end is None or not kinds & _OF_CALENDAR:
            return None
        calendar = api.client(self.request).calendar
        try:
            found = calendar.bars(
                since=end - _MINUTE, until=end, lease_id=self.lease.id, free_until=True
            )
            return min((each.free_until for each in found if each.free_until), default=None)
        except Exception:  # noqa: BLE001
            exceptions.handle(self.request, ignore=True)
            return None


class ShortenView(ExtendView):
    """An earlier end of a lease."""

    form_class = end_forms.ShortenForm
    page_title = modal_header = _('Shorten Lease')
    submit_label = _('Shorten')
    address = 'horizon:project:climate_leases:shorten'

    def _until(self) -> None:
        """Show nothing: an earlier end conflicts with no lease."""


def _limit(limit: Limit) -> tuple[str, str, str]:
    is_limited = limit.limit is not None and limit.limit >= 0
    most = amounts.show(limit.name, limit.limit) if is_limited else pgettext('Limit', 'None')
    return words.word(words.LIMITS, limit.name), amounts.show(limit.name, limit.used), most


def _answer(form: create_form.CreateForm) -> dict[str, Any]:
    """Return what the lease service answered to a form, for a template."""
    answer: dict[str, Any] = {}
    if form.window:
        answer = {'level': 'success', 'window': form.window}
    elif outcome := form.outcome:
        waiting = 'info' if outcome.waits else 'warning'
        answer = {
            'level': 'success' if outcome.granted else waiting,
            'outcome': outcome,
            'outcome_start': times.show(outcome.start_date),
            'outcome_end': times.show(outcome.end_date),
        }
    if offered := form.offered():
        given = {f'{name}_at': times.write(time) for name, time in offered.items()}
        answer |= {
            'offered': given,
            'offered_query': parse.urlencode({'do': 'check', **given}),
            'offered_shown': times.show(offered['start']),
        }
    return answer
