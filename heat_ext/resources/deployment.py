# SPDX-License-Identifier: Apache-2.0
"""``OS::Climate::SoftwareDeployment`` and ``StructuredDeployment`` on a reserved server.

Groups of deployments (``OS::Heat::SoftwareDeploymentGroup``) are nested stacks of heat's types,
which the environment maps to these.
"""

from typing import Any

from heat.engine.resources.openstack.heat import software_deployment, structured_config

from heat_ext.members import deferred_create


class _Deployment(deferred_create.DeferredCreate):
    def required_ids(self) -> tuple[str | None, ...]:
        return (self.properties[self.SERVER],)

    def _was_never_created(self) -> bool:
        return self.is_deferred() and self.resource_id is None

    # A server that never got the deployment would not answer to these actions.

    def handle_suspend(self) -> Any:
        return None if self._was_never_created() else super().handle_suspend()

    def handle_resume(self) -> Any:
        return None if self._was_never_created() else super().handle_resume()

    def handle_delete(self) -> Any:
        return None if self._was_never_created() else super().handle_delete()


class SoftwareDeployment(_Deployment, software_deployment.SoftwareDeployment):
    """A deployment that is created when its server runs."""


class StructuredDeployment(_Deployment, structured_config.StructuredDeployment):
    """A deployment of a structured configuration that is created when its server runs."""


TYPES = {
    'OS::Climate::SoftwareDeployment': SoftwareDeployment,
    'OS::Climate::StructuredDeployment': StructuredDeployment,
}
