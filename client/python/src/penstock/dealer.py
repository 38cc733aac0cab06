"""The DEALER socket. One thread at a time."""
from __future__ import annotations

import collections
import math
import os
from typing import Any, Deque, List, Optional

import zmq

_HEARTBEAT_MS = 2000
_GOODBYE_MS = 200


class Dealer:
    """Sends and receives multiparts without ever blocking but in `wait`."""

    def __init__(self, url: str) -> None:
        """Raises ValueError when that can't be connected to."""
        self._context = zmq.Context()
        # The daemon knows us by this id, whatever happens to the connection. The first byte 0 is ZeroMQ's own.
        self._identity = bytes([1 + os.urandom(1)[0] % 255]) + os.urandom(15)
        self._unsent: Deque[List[Any]] = collections.deque()
        self._poller = zmq.Poller()
        try:
            self._socket = self._open(url)
        except ValueError:
            self._context.destroy(linger=0)
            raise

    def _open(self, url: str) -> zmq.Socket[bytes]:
        fresh: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        fresh.setsockopt(zmq.IDENTITY, self._identity)
        # Nothing piles up for a daemon that is away; what is in flight is bounded by the credits.
        fresh.setsockopt(zmq.IMMEDIATE, 1)
        fresh.setsockopt(zmq.SNDHWM, 0)
        fresh.setsockopt(zmq.RCVHWM, 0)
        fresh.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_MS)
        fresh.setsockopt(zmq.HEARTBEAT_TIMEOUT, 3 * _HEARTBEAT_MS)
        fresh.setsockopt(zmq.RECONNECT_IVL, 20)
        fresh.setsockopt(zmq.RECONNECT_IVL_MAX, 1000)
        try:
            fresh.connect(url)
        except zmq.ZMQError as error:
            fresh.close(linger=0)
            raise ValueError(f"can't connect to {url!r}: {error}") from None
        return fresh

    def move(self, url: str, farewell: List[Any]) -> None:
        """Leaves with one last message and connects there instead, under the same id. Raises ValueError, and stays,
        when that can't be connected to."""
        fresh = self._open(url)
        self._poller.unregister(self._socket)
        self._leave(farewell)
        self._socket = fresh

    def wait(self, descriptor: int, seconds: Optional[float]) -> bool:
        """Waits until there is something to do. Whether there is something to receive."""
        self._poller.register(self._socket, zmq.POLLIN | (zmq.POLLOUT if self._unsent else 0))
        self._poller.register(descriptor, zmq.POLLIN)
        ready = dict(self._poller.poll(None if seconds is None else math.ceil(1000 * seconds)))
        return bool(ready.get(self._socket, 0) & zmq.POLLIN)

    def send(self, parts: List[Any]) -> None:
        """Sends it, or keeps it, once, until there is a connection. Large parts are not copied."""
        if not any(kept is parts for kept in self._unsent):
            self._unsent.append(parts)
        self.flush()

    def flush(self) -> None:
        """Sends what was kept."""
        while self._unsent:
            try:
                self._socket.send_multipart(self._unsent[0], zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            self._unsent.popleft()

    def receive(self) -> Optional[List[Any]]:
        """The parts of the next message as buffers that keep their memory alive; None when there is none."""
        try:
            return [part.buffer for part in self._socket.recv_multipart(zmq.NOBLOCK, copy=False)]
        except zmq.Again:
            return None

    def close(self, farewell: List[Any]) -> None:
        """Sends one last message, where there is somebody to send it to."""
        self._leave(farewell)
        self._context.term()

    def _leave(self, farewell: List[Any]) -> None:
        self._unsent.clear()
        self.send(farewell)
        self._unsent.clear()
        self._socket.close(linger=_GOODBYE_MS)
