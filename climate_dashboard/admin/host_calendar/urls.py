# SPDX-License-Identifier: Apache-2.0
"""The address of the panel Calendar of Hosts."""

from django.urls import re_path

from climate_dashboard.calendar import views

urlpatterns = [re_path(r'^$', views.HostsView.as_view(), name='index')]
