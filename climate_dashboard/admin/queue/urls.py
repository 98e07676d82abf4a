# SPDX-License-Identifier: Apache-2.0
"""The addresses of the panel Queued Leases."""

from django.urls import re_path

from climate_dashboard.admin.queue import views

urlpatterns = [
    re_path(r'^$', views.IndexView.as_view(), name='index'),
    re_path(r'^(?P<lease_id>[^/]+)/priority/$', views.PriorityView.as_view(), name='priority'),
]
