# SPDX-License-Identifier: Apache-2.0
"""The exceptions of an extension beside those of the service that it extends."""


class BadHint(ValueError):
    """A hint is wrong.

    :param field: the hint, with the path to the value inside it
    :param reason: what would be right
    """

    def __init__(self, field: str, reason: str) -> None:
        # Both may repeat a value of the user, which is as long as the request.
        self.field, self.reason = field[:200], reason[:1000]
        super().__init__(f'{self.field}: {self.reason}')


class Incompatible(RuntimeError):
    """This service does not have the extension points that the extension was made for."""


class LeaseUnavailable(Exception):
    """The lease service does not answer, or cannot be found."""


class LeaseRefused(Exception):
    """The lease service refused a request.

    :param reason: its message, for the user
    :param status: its HTTP status
    """

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status = status
