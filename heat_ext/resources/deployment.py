# SPDX-License-Identifier: Apache-2.0
"""``OS::Climate::SoftwareDeployment`` and ``StructuredDeployment`` on a server that sleeps.

Groups of deployments (``OS::Heat::SoftwareDeploymentGroup``) are nested stacks of the types of
heat, which the environment maps to these.
"""

from typing import Any

from heat.engine.resources.openstack.heat import software_deployment, structured_config

from heat_ext.members import deferred


class _Deployment(deferred.Deferred):
    def needed(self) -> tuple[str | None, ...]:
        return (self.properties[self.SERVER],)

    def _was_never_given(self) -> bool:
        return self.is_deferred() and self.resource_id is None

    # A server that never got it has nothing to do at these times, and would never answer.

    def handle_suspend(self) -> Any:
        return None if self._was_never_given() else super().handle_suspend()

    def handle_resume(self) -> Any:
        return None if self._was_never_given() else super().handle_resume()

    def handle_delete(self) -> Any:
        return None if self._was_never_given() else super().handle_delete()


class SoftwareDeployment(_Deployment, software_deployment.SoftwareDeployment):
    """A deployment that is given to its server when that runs."""


class StructuredDeployment(_Deployment, structured_config.StructuredDeployment):
    """The same, of a structured configuration."""


TYPES = {
    'OS::Climate::SoftwareDeployment': SoftwareDeployment,
    'OS::Climate::StructuredDeployment': StructuredDeployment,
}
