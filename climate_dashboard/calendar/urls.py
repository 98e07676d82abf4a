# SPDX-License-Identifier: Apache-2.0
"""The address of the panel Calendar."""

from django.urls import re_path

from climate_dashboard.calendar import views

urlpatterns = [re_path(r'^$', views.LeasesView.as_view(), name='index')]
