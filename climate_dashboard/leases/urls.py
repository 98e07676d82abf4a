# SPDX-License-Identifier: Apache-2.0
"""The addresses of the panel Leases."""

from django.urls import re_path

from climate_dashboard.leases import change_views, views

_LEASE = r'^(?P<lease_id>[^/]+)/'

urlpatterns = [
    re_path(r'^$', views.IndexView.as_view(), name='index'),
    re_path(r'^create/$', change_views.CreateView.as_view(), name='create'),
    re_path(r'^launch/$', views.LaunchView.as_view(), name='launch'),
    re_path(r'^create/check/$', change_views.CheckView.as_view(), name='check'),
    re_path(rf'{_LEASE}extend/$', change_views.ExtendView.as_view(), name='extend'),
    re_path(rf'{_LEASE}shorten/$', change_views.ShortenView.as_view(), name='shorten'),
    re_path(rf'{_LEASE}$', views.DetailView.as_view(), name='detail'),
]
