# SPDX-License-Identifier: Apache-2.0
"""Power hosts off while no lease needs them, and on before a lease needs them.

The rest of Climate has two seams with it: a unit of the calendar can be off, and is then
allocated last; and the start of a lease waits until its hosts are on.
"""
