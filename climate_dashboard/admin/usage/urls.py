# SPDX-License-Identifier: Apache-2.0
"""The addresses of the panel Usage."""

from django.urls import re_path

from climate_dashboard.admin.usage import views

urlpatterns = [
    re_path(r'^$', views.IndexView.as_view(), name='index'),
    re_path(r'^planned/$', views.PlannedView.as_view(), name='planned'),
]
