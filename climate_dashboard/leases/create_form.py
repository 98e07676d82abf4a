# SPDX-License-Identifier: Apache-2.0
"""The form of a new lease."""

import datetime
from typing import Any, Final

from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy
from horizon import forms, messages
from openstack_dashboard import policy

from climate_common import dates, lease_fields, limits, resource_types
from climate_dashboard import amounts, api, times, words
from climate_dashboard.leases import asked, choices, time_fields
from climateclient import exceptions
from climateclient.client import SERVICE_TYPE
from climateclient.models import DryRun, Lease, Window

_SLUG: Final = 'what'
_WHAT: Final = (
    (asked.SERVERS, _('New servers')),
    (asked.CAPACITY, _('Capacity for servers')),
    (asked.HOSTS, _('Whole hosts')),
    (asked.FLOATING_IPS, _('Floating IPs')),
    (asked.STACK, _('Stack from a template')),
    (asked.NOTHING, _('Nothing yet: resources join it later')),
)
#: The kind for which servers of others are moved, and who may create such leases.
_MOVING, _MOVING_RULE = 'best_effort', 'climate:leases:make_room'
_KINDS: Final = (
    ('', _('The lease is rejected')),
    ('retry', _('The lease is queued until capacity is sufficient')),
    (_MOVING, _('Shared hosts are drained')),
)
_STARTS: Final = (('auto', _('Automatically')), ('manual', _('When you start it')))
_GENERIC: Final = tuple(
    field for field in lease_fields.GENERIC if lease_fields.CREATE in field.set_by
)


def _shown_for(label: Any, *kinds: str) -> dict[str, Any]:
    """Return the attributes by which Horizon shows a field only for some of what is asked for."""
    shown = {f'data-{_SLUG}-{kind}': label for kind in kinds}
    return {'class': 'switched', 'data-switch-on': _SLUG, **shown}


def _select(label: Any, *kinds: str) -> forms.ChoiceField:
    widget = forms.ThemableSelectWidget(attrs=_shown_for(label, *kinds))
    return forms.ChoiceField(label=label, required=False, widget=widget)


def _generic(field: lease_fields.Field) -> forms.Field:
    """Return the form field of a field that the service stores as it is."""
    terms = {'label': _(field.title), 'required': False, 'help_text': _(field.description)}
    if field.choices:
        values = [('', '-'), *((value, value) for value in field.choices)]
        return forms.ThemableChoiceField(choices=values, **terms)
    if field.type == lease_fields.BOOLEAN:
        return forms.BooleanField(**terms)
    if field.type == lease_fields.INTEGER:
        return forms.IntegerField(min_value=field.minimum, max_value=field.maximum, **terms)
    return forms.CharField(max_length=field.maximum, **terms)


#: A field with resources of other services -> the function of `choices` that lists them.
_LISTS: Final = {
    'flavor': 'flavors',
    'image': 'images',
    'network': 'networks',
    'key_pair': 'key_pairs',
    'external_network': 'external_networks',
}
#: The fields of the API that have another name in the form.
_FIELDS: Final = {
    'name': 'name',
    'start': 'start',
    'start_date': 'start',
    'end': 'end',
    'end_date': 'end',
    'duration': 'duration',
    'kind': 'kind',
    'template': 'template',
}


class CreateForm(forms.SelfHandlingForm):
    """Ask what to reserve, and when.

    Buttons only ask whether it would be granted, and from when.
    """

    name = forms.CharField(label=_('Name'), max_length=limits.NAME_LENGTH)
    start = time_fields.StartField(
        label=_('Start'), required=False, help_text=_('A date and time; empty: now')
    )
    delay = time_fields.DurationField(
        label=_('Starts in'), required=False, help_text=_('Such as 30m or 2h, instead of a start')
    )
    duration = time_fields.DurationField(
        label=_('Duration'), required=False, help_text=_('Such as 90m, 8h or 1d 12h')
    )
    end = time_fields.TimeField(
        label=_('End'), required=False, help_text=_('A date and time, instead of a duration')
    )
    what = forms.ChoiceField(
        label=_('What to reserve'),
        choices=_WHAT,
        widget=forms.ThemableSelectWidget(attrs={'class': 'switchable', 'data-slug': _SLUG}),
    )
    flavor = _select(_('Flavor'), asked.SERVERS, asked.CAPACITY)
    count = forms.IntegerField(
        label=_('How many'),
        required=False,
        min_value=1,
        initial=1,
        widget=forms.NumberInput(
            attrs=_shown_for(
                _('How many'), asked.SERVERS, asked.CAPACITY, asked.HOSTS, asked.FLOATING_IPS
            )
        ),
    )
    most = forms.IntegerField(
        label=_('At most'),
        required=False,
        min_value=1,
        help_text=_('More hosts, up to this number, if they are free'),
        widget=forms.NumberInput(attrs=_shown_for(_('At most'), asked.HOSTS)),
    )
    image = _select(_('Image'), asked.SERVERS)
    network = _select(_('Network'), asked.SERVERS)
    key_pair = _select(_('Key Pair'), asked.SERVERS)
    on_end = _select(_('At the end'), asked.SERVERS)
    conditions = forms.CharField(
        label=_('Conditions'),
        required=False,
        help_text=_('Required properties of the hosts, such as vcpus>=16,memory_mb>=64GiB'),
        widget=forms.TextInput(attrs=_shown_for(_('Conditions'), asked.HOSTS, asked.CAPACITY)),
    )
    pool = forms.CharField(
        label=_('Pool'),
        required=False,
        widget=forms.TextInput(attrs=_shown_for(_('Pool'), asked.HOSTS, asked.CAPACITY)),
    )
    external_network = _select(_('External Network'), asked.FLOATING_IPS)
    stack_name = forms.CharField(
        label=_('Name of the stack'),
        required=False,
        max_length=limits.NAME_LENGTH,
        widget=forms.TextInput(attrs=_shown_for(_('Name of the stack'), asked.STACK)),
    )
    template = forms.CharField(
        label=_('Template'),
        required=False,
        help_text=_('A template of Heat; it cannot refer to other files'),
        widget=forms.Textarea(attrs={'rows': 8, **_shown_for(_('Template'), asked.STACK)}),
    )
    parameters = forms.CharField(
        label=_('Parameters'),
        required=False,
        help_text=_('Of the template: <name>=<value>, one per line'),
        widget=forms.Textarea(attrs={'rows': 3, **_shown_for(_('Parameters'), asked.STACK)}),
    )
    kind = forms.ThemableChoiceField(
        label=_('If capacity is not sufficient'), required=False, choices=_KINDS
    )
    start_policy = forms.ThemableChoiceField(
        label=pgettext_lazy('How a lease starts', 'Starts'), required=False, choices=_STARTS
    )

    def __init__(
        self, request: Any, *args: Any, do: str = '', lists: bool = True, **kwargs: Any
    ) -> None:
        """Create the form.

        :param do: ``create``, ``earliest`` or ``check``
        :param lists: request flavors, images, networks and key pairs for the user to choose from;
            otherwise the form takes any, which the lease service validates
        """
        super().__init__(request, *args, auto_id=times.FIELD_IDS, **kwargs)
        self._do = do
        #: What the service says to the form, if it was only asked.
        self.outcome: DryRun | None = None
        self.window: Window | None = None
        for name, of in _LISTS.items():
            chosen = self.data.get(name, '')
            self.fields[name].choices = (
                getattr(choices, of)(request) if lists else [('', ''), (chosen, chosen)]
            )
        for field in _GENERIC:
            self.fields[field.name] = _generic(field)
        if not policy.check(((SERVICE_TYPE, _MOVING_RULE),), request):
            self.fields['kind'].choices = [each for each in _KINDS if each[0] != _MOVING]
        ends = resource_types.ON_END[resource_types.SERVER]
        self.fields['on_end'].choices = [
            ('', _('As the service is configured')),
            *((each, words.word(words.ENDS, each)) for each in ends),
        ]

    def clean_conditions(self) -> str:
        text = amounts.read_conditions(self.cleaned_data['conditions'].strip())
        for part in filter(None, map(str.strip, text.split(','))):
            if limits.parse_condition(part) is None:
                text = _('"%s" is not <property><operator><value>, as vcpus>=16.') % part
                raise forms.ValidationError(text)
        return text

    def clean_parameters(self) -> dict[str, str]:
        lines = filter(None, map(str.strip, self.cleaned_data['parameters'].splitlines()))
        found = {}
        for line in lines:
            name, sign, value = line.partition('=')
            if not sign or not name.strip():
                raise forms.ValidationError(_('"%s" is not <name>=<value>.') % line)
            found[name.strip()] = value.strip()
        return found

    def clean(self) -> dict[str, Any]:
        given = super().clean()
        if not self.errors and bool(given['end']) == bool(given['duration']):
            self.add_error('duration', _('Either a duration or an end must be given.'))
        if given.get('delay') is not None:
            given['start'] = self._delayed(given.get('start'), given['delay'])
        for name in asked.NEEDED.get(given.get('what', ''), ()):
            if not given.get(name) and name not in self.errors:
                self.add_error(name, _('This field is required.'))
        if given.get('kind') == _MOVING and given.get('what') != asked.HOSTS:
            self.add_error('kind', _('This is only for whole hosts.'))
        return given

    def handle(self, request: Any, data: dict[str, Any]) -> Lease | None:
        """Create the lease; or only ask about it, and return nothing, so that the form stays."""
        try:
            client = api.client(request)
            if self._do == 'create':
                made = client.leases.create(data['name'], **self._details(data))
                messages.success(request, _('The lease %s was created.') % made.name)
                return made
            if self._do == 'earliest':
                self.window = self._earliest(client, data)
            else:
                self.outcome = client.leases.dry_run(data['name'], **self._details(data))
        except exceptions.ApiError as error:
            field = _FIELDS.get(error.field or '')
            if field is None:
                self.api_error(api.error_text(error))
            else:
                self.add_error(field, error.message)
        return None

    def offered(self) -> dict[str, datetime.datetime]:
        """Return the next times that would be granted, by the fields that can take them."""
        found = self.window and self.window.start_date
        if self.outcome and not self.outcome.granted:
            found = self.outcome.available_from
        if not found:
            return {}
        start = times.round_up(found)
        end = self.cleaned_data.get('end')
        return {'start': start, 'end': start + self._length()} if end else {'start': start}

    def _length(self) -> datetime.timedelta:
        start, end = self.cleaned_data['start'], self.cleaned_data['end']
        return self.cleaned_data['duration'] or end - (times.now() if start == 'now' else start)

    def _details(self, data: dict[str, Any]) -> dict[str, Any]:
        details = {
            'start': data['start'],
            'end': data['end'],
            'duration': data['duration'],
            'kind': data['kind'] or None,
            'start_policy': data['start_policy'] or None,
            'reservations': asked.reservations(data),
            **{
                field.name: None if data[field.name] == '' else data[field.name]
                for field in _GENERIC
            },
        }
        return {name: value for name, value in details.items() if value is not None}

    def _earliest(self, client: Any, data: dict[str, Any]) -> Window | None:
        since = None if data['start'] == 'now' else data['start']
        found = client.availability(asked.searchable(data), self._length(), since=since, limit=1)
        if not found:
            self.api_error(_('No time within the reservable period has sufficient capacity.'))
            return None
        return found[0]

    def _delayed(self, start: Any, delay: datetime.timedelta) -> datetime.datetime | None:
        """Return the start that is so far away; report a start beside it."""
        if start not in (None, 'now'):
            self.add_error('delay', _('Either a start or the time until then can be given.'))
        try:
            return dates.add_duration(timezone.now(), delay)
        except dates.DurationError as error:
            self.add_error('delay', str(error))
            return None
