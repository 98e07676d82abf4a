# SPDX-License-Identifier: Apache-2.0
"""The roles. Keystone implies reader by member, member by manager and manager by admin."""

ADMIN = 'role:admin'
SERVICE = 'role:service'
PROJECT_READER = '(role:reader and project_id:%(project_id)s)'
PROJECT_MEMBER = '(role:member and project_id:%(project_id)s)'
PROJECT_MANAGER = '(role:manager and project_id:%(project_id)s)'

PROJECT_READER_OR_ADMIN = f'{PROJECT_READER} or {PROJECT_MEMBER} or {PROJECT_MANAGER} or {ADMIN}'
PROJECT_MEMBER_OR_ADMIN = f'{PROJECT_MEMBER} or {PROJECT_MANAGER} or {ADMIN}'

#: Tokens of a project. An admin of the whole system has no project to reserve in.
PROJECT = ['project']
