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
_GET_SEALS, _SHRINK_AND_GROW = 1034, 2 | 4  # Linux's, which not every Python has names for


class Lease:
    """Fetches one arena from the daemon's Unix socket. Thread: the connection's. Nothing here waits: `receive` is for
    when `fileno` is readable."""

    def __init__(self, attached: Attached) -> None:
        """Raises OSError where no descriptor can be passed."""
        self.arena: Optional[Arena] = None  #: once it has come
        self.connected = False
        if not hasattr(socket, "recv_fds"):
            raise OSError("descriptors can't be passed on this system")
        self._attached = attached
        self._record = b""
        self._descriptors: List[int] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.setblocking(False)

    def connect(self) -> None:
        """Connects and shows the ticket, or is not `connected` where too many wait there: it is to be tried again.
        Raises OSError."""
        name = self._attached.socket
        try:
            self._socket.connect(b"\0" + name[1:].encode() if name.startswith("@") else name)
            self._socket.sendall(self._attached.ticket.encode())
            self.connected = True
        except BlockingIOError:
            pass
        except (OSError, ValueError) as error:
            raise OSError(f"can't fetch memory at {name}: {error}") from None

    def fileno(self) -> int:
        """The descriptor to poll for reading, once it is connected."""
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
            _check_sealed(self._descriptors[0])
            self.arena = Arena(number, self._descriptors[0], nbytes)
        except (OSError, ValueError, OverflowError) as error:
            raise OSError(f"can't map the daemon's memory: {error}") from None
        self._close_descriptors()

    def _close_descriptors(self) -> None:
        descriptors, self._descriptors = self._descriptors, []
        for each in descriptors:
            os.close(each)


def _check_sealed(descriptor: int) -> None:
    """Raises OSError for memory that could become another size: a read of what is gone would end the process."""
    import fcntl  # no earlier: the package runs where there is none, too
    if fcntl.fcntl(descriptor, _GET_SEALS) & _SHRINK_AND_GROW != _SHRINK_AND_GROW:
        raise OSError("it is not sealed against another size")
