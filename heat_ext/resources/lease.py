# SPDX-License-Identifier: Apache-2.0
"""``OS::Climate::Lease``: a lease as a resource of a stack."""

from heat.engine import properties, resource

from heat_ext import client


class Lease(resource.Resource):
    """A lease."""

    default_client_name = client.CLIENT_NAME
    entity = 'leases'
    properties_schema = {
        'name': properties.Schema(properties.Schema.STRING, 'Its name.', update_allowed=True),
        'start_date': properties.Schema(properties.Schema.STRING, 'Start.', default='now'),
        'end_date': properties.Schema(properties.Schema.STRING, 'End.', required=True),
    }

    def handle_create(self):
        lease = self.client().leases.create(
            self.properties['name'] or self.physical_resource_name(),
            self.properties['end_date'],
            self.properties['start_date'],
            id=self.uuid,
        )
        self.resource_id_set(lease.id)

    def handle_delete(self):
        if self.resource_id is not None:
            with self.client_plugin().ignore_not_found:
                self.client().leases.delete(self.resource_id)


TYPES = {'OS::Climate::Lease': Lease}
