"""The connection over which an arena comes, and whose end is the end of its lease."""
from __future__ import annotations

import os
import socket
import struct
from typing import List, Optional

from .arena import Arena
from .control import Attached

_RECORD = struct.Struct("<4sIQ")
_MAGIC = b"PNSM"


class Lease:
    """Fetches one arena from the daemon's Unix socket. Thread: the connection's. Nothing here waits: `receive` is for
    when `fileno` is readable."""

    def __init__(self, attached: Attached) -> None:
        """Connects and shows the ticket. Raises OSError."""
        self.arena: Optional[Arena] = None  #: once it has come
        if not hasattr(socket, "recv_fds"):
            raise OSError("descriptors can't be passed on this system")
        name = attached.socket
        self._record = b""
        self._descriptors: List[int] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.setblocking(False)
            self._socket.connect(b"\0" + name[1:].encode() if name.startswith("@") else name)
            self._socket.sendall(attached.ticket.encode())
        except (OSError, ValueError) as error:
            self._socket.close()
            raise OSError(f"can't fetch memory at {name}: {error}") from None

    def fileno(self) -> int:
        """The descriptor to poll for reading."""
        return self._socket.fileno()

    def receive(self) -> None:
        """Takes what has come, and maps the arena when all of it has. Raises OSError when the lease has ended."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._socket, _RECORD.size, 1)
        except BlockingIOError:
            return
        self._descriptors += descriptors
        if not data:
            raise OSError("the daemon has ended the lease" if self.arena else "the daemon gave no memory")
        if self.arena is None:
            self._record += data
            if len(self._record) >= _RECORD.size:
                self._map()

    def close(self) -> None:
        """Ends the lease. The arena stays mapped as long as something lies in it."""
        self._close_descriptors()
        try:
            self._socket.shutdown(socket.SHUT_RDWR)  # a forked child has it too
        except OSError:
            pass
        self._socket.close()

    def _map(self) -> None:
        magic, number, nbytes = _RECORD.unpack_from(self._record)
        if magic != _MAGIC or not self._descriptors:
            raise OSError("what answers at the daemon's socket is no daemon")
        try:
            self.arena = Arena(number, self._descriptors[0], nbytes)
        except (OSError, ValueError, OverflowError) as error:
            raise OSError(f"can't map the daemon's memory: {error}") from None
        self._close_descriptors()

    def _close_descriptors(self) -> None:
        descriptors, self._descriptors = self._descriptors, []
        for each in descriptors:
            os.close(each)
