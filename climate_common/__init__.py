# SPDX-License-Identifier: Apache-2.0
"""Values that the lease service, its client and the extensions of Nova, Cinder and Heat share.

Pure: no I/O, and nothing of the other packages is imported. :mod:`~climate_common.dates` is the
one grammar of time, :mod:`~climate_common.hints` has the keys of scheduler hints,
:mod:`~climate_common.resource_types` the types of resources and the units in which they are
counted, and :mod:`~climate_common.limits` what the lease API accepts.
"""
