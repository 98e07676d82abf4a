# SPDX-License-Identifier: Apache-2.0
# Horizon of the local cloud: what openstack_dashboard.settings reads as local.local_settings.

import openstack_dashboard.local.enabled
from openstack_dashboard.defaults import DEFAULT_POLICY_FILES, POLICY_FILES

import climate_dashboard.enabled
from climate_dashboard import policy_files

ALLOWED_HOSTS = ['@{host}']
SECRET_KEY = '@{secret}'
LOCAL_PATH = '@{data}'
STATIC_ROOT = '@{data}/static'
COMPRESS_OFFLINE = True
OPENSTACK_KEYSTONE_URL = '@{keystone_url}/v3'
# No memcached here.
SESSION_ENGINE = 'django.contrib.sessions.backends.signed_cookies'
CACHES = {'default': {'BACKEND': 'django.core.cache.backends.locmem.LocMemCache'}}

# The panels of Climate: where Horizon is installed by packages, these files are copied.
openstack_dashboard.local.enabled.__path__.extend(climate_dashboard.enabled.__path__)
policy_files.add(POLICY_FILES, DEFAULT_POLICY_FILES)
