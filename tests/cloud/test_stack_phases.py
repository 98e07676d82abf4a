# SPDX-License-Identifier: Apache-2.0
"""What users do with a reserved stack asleep and awake, and stacks in stacks."""

import pathlib
import uuid

from tests.cloud.reserving import RESERVED
from tests.cloud.stacking import Stacking, body
from tests.cloud.templates import PHASES, WORKER, WORKERS


def test_actions_of_a_stack_asleep_and_awake(stacks: Stacking) -> None:
    """A stack that is suspended at the start is resumed and woken."""
    lease_id = stacks.lease()
    preview = {'stack_name': 'preview', **body(PHASES, lease_id, {})}
    response = stacks.heat.post('/stacks/preview', json=preview)
    assert response.status_code == 200, response.text
    assert stacks.person.leases.get(lease_id).reservations == ()

    stack_id = stacks.create(PHASES, lease_id)
    asleep = (['RESERVED'], [RESERVED])
    assert state(stacks, stack_id) == asleep
    stacks.do(stack_id, 'check', 'CHECK_COMPLETE')
    stacks.ask(stack_id, PHASES, lease_id, word='second')
    stacks.wait_resource(stack_id, 'slow', 'UPDATE_IN_PROGRESS')
    stacks.do(stack_id, 'cancel_update', 'ROLLBACK_COMPLETE')
    assert state(stacks, stack_id) == asleep
    stacks.do(stack_id, 'suspend', 'SUSPEND_COMPLETE')
    assert state(stacks, stack_id) == asleep

    stacks.start(lease_id)
    awake = (['ACTIVE'], ['in-use'])
    assert state(stacks, stack_id) == awake
    stacks.do(stack_id, 'check', 'CHECK_COMPLETE')
    stacks.do(stack_id, 'suspend', 'SUSPEND_COMPLETE')
    assert state(stacks, stack_id) == (['SUSPENDED'], ['in-use'])
    stacks.do(stack_id, 'resume', 'RESUME_COMPLETE')
    assert state(stacks, stack_id) == awake
    assert stacks.trouble(lease_id) == []


def state(stacks: Stacking, stack_id: str) -> tuple[list[str], list[str]]:
    return stacks.servers(stack_id), stacks.volumes(stack_id)


def test_groups_of_stacks_and_an_environment_that_names_only_the_lease(
    stacks: Stacking, tmp_path: pathlib.Path
) -> None:
    """Workers with disks, in files as users have them; one of them is a spare."""
    lease_id, name = stacks.lease(), f'test-{uuid.uuid4().hex[:8]}'
    (tmp_path / 'workers.yaml').write_text(WORKERS)
    (tmp_path / 'worker.yaml').write_text(WORKER)
    done = stacks.person.cli(
        *('openstack', 'stack', 'create', '-t', str(tmp_path / 'workers.yaml')),
        *('-e', str(stacks.write(tmp_path, lease_id)), '--wait', name),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    stack_id = stacks.heat.get(f'/stacks/{name}').json()['stack']['id']
    stacks.stacks.append(stack_id)
    assert state(stacks, stack_id) == (['RESERVED'] * 3, [RESERVED] * 3)
    assert stacks.outputs(stack_id) == {'disks': [RESERVED]}

    stacks.start(lease_id)
    awake = ['ACTIVE', 'ACTIVE', 'RESERVED'], ['in-use', 'in-use', RESERVED]
    assert state(stacks, stack_id) == awake
    assert stacks.outputs(stack_id) == {'disks': ['in-use']}
    servers = stacks.ids(stack_id, 'OS::Nova::Server')
    volumes = stacks.ids(stack_id, 'OS::Cinder::Volume')

    stacks.end(lease_id)
    stacks.wait_gone(stack_id)
    sdk = stacks.person.sdk
    assert {sdk.compute.find_server(each) for each in servers} == {None}
    assert {sdk.block_storage.find_volume(each) for each in volumes} == {None}
