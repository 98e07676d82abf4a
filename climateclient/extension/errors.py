# SPDX-License-Identifier: Apache-2.0
"""What an extension raises besides the exceptions of the service that it extends."""


class Incompatible(RuntimeError):
    """This service does not have the seams that the extension was made for."""


class LeaseUnavailable(Exception):
    """The lease service does not answer, or cannot be found."""


class LeaseRefused(Exception):
    """The lease service said no.

    :param reason: its words, for the user
    :param status: its HTTP status
    """

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status = status
