# SPDX-License-Identifier: Apache-2.0
"""The addresses of the panel Hosts."""

from django.urls import re_path

from climate_dashboard.admin.hosts import views

urlpatterns = [
    re_path(r'^$', views.IndexView.as_view(), name='index'),
    re_path(r'^add/$', views.AddHostView.as_view(), name='add'),
    re_path(r'^(?P<host_id>[^/]+)/disable/$', views.DisableView.as_view(), name='disable'),
]
