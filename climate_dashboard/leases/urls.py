# SPDX-License-Identifier: Apache-2.0
"""The addresses of the panel Leases."""

from django.urls import re_path

from climate_dashboard.leases import views

_LEASE = r'^(?P<lease_id>[^/]+)/'

urlpatterns = [
    re_path(r'^$', views.IndexView.as_view(), name='index'),
    re_path(rf'{_LEASE}$', views.DetailView.as_view(), name='detail'),
]
