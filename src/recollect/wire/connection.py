"""Reading from a connection with one deadline for a whole request, however slowly it drips."""

from __future__ import annotations

import io
import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class DeadlineReader(io.RawIOBase):
    """The receiving side of a socket. `restart` begins the time of the next request.

    Reading past the deadline raises TimeoutError. A limit on each `recv` alone would let a client
    that sends a byte now and then keep a thread for ever.
    """

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection = connection
        self._seconds = seconds
        self.restart()

    def restart(self) -> None:
        """Give the next request its own time."""
        self._deadline = time.monotonic() + self._seconds

    def readable(self) -> bool:
        """Say yes: the buffered reader around it asks."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Receive some bytes; 0 at the end."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request took too long")
        self._connection.settimeout(left)
        try:
            return self._connection.recv_into(buffer)
        finally:
            self._connection.settimeout(self._seconds)  # what is sent has a limit, too
