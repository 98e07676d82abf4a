# SPDX-License-Identifier: Apache-2.0
"""The calendar: which units are allocated to which reservations, and when.

A unit is anything that has capacity for a time: a host, a floating IP, a network segment. The
calendar knows only its capacity and the properties that a demand checks. Searches are pure. The
index in memory is only a cache: the generation of a unit in the database decides that nothing is
allocated twice.
"""
