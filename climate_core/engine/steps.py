# SPDX-License-Identifier: Apache-2.0
"""The steps of the work on an event.

The work is a generator, so that it reads from its claim to its finish, while each of its steps is
done together with the same step of other events, and in another thread than the one before. It
yields what is to be written, and gets the result of that; and it yields :data:`CALLS` before it
calls other services.
"""

import datetime
import enum
from collections.abc import Generator
from typing import Any, Final, Literal

from climate_core.db.rows import Outcome
from climate_core.engine.group_commit import Write


class _Marker(enum.Enum):
    CALLS = 'calls'


#: What comes next may take as long as other services do.
CALLS: Final = _Marker.CALLS

Step = Write | Literal[_Marker.CALLS]
#: When the first of what is new after an event is due; True if that is not known; False: nothing
#: is new.
Result = datetime.datetime | bool
Work = Generator[Step, Any, Result]

#: What is given to work that has not begun.
NOTHING: Final[Outcome[Any]] = (None, None)


def advance(work: Work, outcome: Outcome[Any]) -> Step:
    """Go on with the work on an event until its next step.

    :param outcome: what came of its last step: the result, or the error that is raised there
    :raises StopIteration: it is over; the value is its result
    """
    result, error = outcome
    return work.send(result) if error is None else work.throw(error)
