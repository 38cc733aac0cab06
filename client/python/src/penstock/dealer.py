"""The DEALER socket."""
from __future__ import annotations

import collections
import math
import socket
from typing import Any, Deque, Dict, List, Optional, Tuple

import zmq
from zmq.utils.monitor import recv_monitor_message

from .endpoint import parse, resolve_localhost, unsupported
from .keys import Keys

_HEARTBEAT_MS = 2000
_GOODBYE_MS = 200
_LONGEST_WAIT_S = 3600.0  # poll's milliseconds are an int
# Numbers of libzmq's that older versions of pyzmq have no names for.
_FAILED_NO_DETAIL, _SUCCEEDED, _FAILED_PROTOCOL, _FAILED_AUTH = 0x0800, 0x1000, 0x2000, 0x4000
_MECHANISM_MISMATCH = 0x11000001


def _needs_ipv6(url: str) -> bool:
    """An IPv6 address, or a name that has no other: libzmq looks for one kind alone."""
    transport, _, address = url.partition("://")
    host = address.rpartition(";")[2].rpartition(":")[0]
    if transport != "tcp" or host.startswith("["):
        return transport == "tcp"
    try:
        return all(found[0] == socket.AF_INET6 for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM))
    except OSError:
        return False


class Dealer:
    """Sends and receives multipart messages; only `wait` blocks. Not thread-safe."""

    def __init__(self, url: str, keys: Optional[Keys] = None) -> None:
        """Begins to connect. Raises ValueError when the URL is invalid."""
        parse(url)
        self.trouble = ""  #: why the last handshake failed; written by the connection's thread
        self.shut_out = False  #: and trying again can't help
        self.broken_off = 0  #: handshakes that the peer closed without a reason
        self._keys = keys
        self._context = zmq.Context()
        self._connections = 0  # of this socket, so far
        self._reconnected = False
        self._unsent: Deque[List[Any]] = collections.deque()
        self._poller = zmq.Poller()
        self._ready: Dict[Any, int] = {}
        try:
            self._socket, self._events = self._open(url)
        except ValueError:
            self._context.destroy(linger=0)
            raise
        self._poller.register(self._events, zmq.POLLIN)

    def _open(self, url: str) -> Tuple[zmq.Socket[bytes], zmq.Socket[bytes]]:
        """A new socket, and its monitor for handshakes."""
        fresh: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        # No messages queue up for an absent daemon; the credits limit what is in flight.
        fresh.setsockopt(zmq.IMMEDIATE, 1)
        fresh.setsockopt(zmq.SNDHWM, 0)
        fresh.setsockopt(zmq.RCVHWM, 0)
        fresh.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_MS)
        fresh.setsockopt(zmq.HEARTBEAT_TIMEOUT, 3 * _HEARTBEAT_MS)
        fresh.setsockopt(zmq.RECONNECT_IVL, 20)
        fresh.setsockopt(zmq.RECONNECT_IVL_MAX, 1000)
        if self._keys is not None:
            self._keys.arm(fresh)
        events = fresh.get_monitor_socket(_SUCCEEDED | _FAILED_NO_DETAIL | _FAILED_PROTOCOL | _FAILED_AUTH)
        there = resolve_localhost(url)
        fresh.setsockopt(zmq.IPV6, int(_needs_ipv6(there)))
        try:
            fresh.connect(there)
        except zmq.ZMQError as error:
            events.close(linger=0)
            fresh.close(linger=0)
            if error.errno == zmq.EPROTONOSUPPORT:
                raise ValueError(unsupported(url)) from None
            raise ValueError(f"can't connect to {url!r}: {error}") from None
        return fresh, events

    def move(self, url: str, farewell: List[Any]) -> None:
        """Sends one last message and connects to another address. Raises ValueError, and stays, when that fails."""
        fresh, events = self._open(url)
        self._poller.unregister(self._socket)
        self._poller.unregister(self._events)
        self._leave(farewell)
        self._socket, self._events = fresh, events
        self._connections = 0
        self._poller.register(events, zmq.POLLIN)

    def has_reconnected(self) -> bool:
        """True once after each reconnection. To the daemon the new connection belongs to another peer."""
        reconnected, self._reconnected = self._reconnected, False
        return reconnected

    def watch(self, descriptor: int) -> None:
        """From now on `wait` also returns when the descriptor is readable or closed by the peer."""
        self._poller.register(descriptor, zmq.POLLIN)

    def unwatch(self, descriptor: int) -> None:
        """Undoes `watch`. The descriptor must still be open."""
        self._poller.unregister(descriptor)

    def is_ready(self, descriptor: Optional[int]) -> bool:
        """True when the descriptor was readable at the last `wait`."""
        return descriptor in self._ready

    def wait(self, descriptor: int, seconds: Optional[float]) -> bool:
        """Waits for a message, a watched descriptor or the timeout. True when there is a message."""
        self._poller.register(self._socket, zmq.POLLIN | (zmq.POLLOUT if self._unsent else 0))
        self._poller.register(descriptor, zmq.POLLIN)
        at_most = None if seconds is None else math.ceil(1000 * min(seconds, _LONGEST_WAIT_S))
        self._ready = ready = dict(self._poller.poll(at_most))
        while ready.get(self._events) and self._events.poll(0):
            self._note(recv_monitor_message(self._events))
        return bool(ready.get(self._socket, 0) & zmq.POLLIN)

    def _note(self, event: Any) -> None:
        """Notes an event of the monitor: a connection, or a failed handshake."""
        keys = self._keys is not None
        number, value = int(event["event"]), int(event["value"])
        if number == _SUCCEEDED:
            self._connections += 1
            self._reconnected = self._connections > 1
            return
        if number == _FAILED_AUTH:
            self.trouble = ("this client's key is not among the authorised ones: its public key, which penstock keygen "
                            "--show FILE prints, belongs into the daemon's security.authorized_keys_file")
        elif number == _FAILED_PROTOCOL and value == _MECHANISM_MISMATCH:
            self.trouble = ("it asks for no keys: leave server_key and key_file out" if keys else
                            "it asks for keys: give its public key (server_key) and a key_file of your own")
        else:
            self.broken_off += 1
            self.trouble = "the connection is closed during its handshake: " + (
                "is server_key the daemon's, and does it ask for keys?" if keys else "does the daemon ask for keys?")
            return
        self.shut_out = True

    def send(self, parts: List[Any]) -> None:
        """Sends a message, or queues it until there is a connection. Large parts are not copied."""
        if not any(kept is parts for kept in self._unsent):
            self._unsent.append(parts)
        self.flush()

    def flush(self) -> None:
        """Sends the queued messages."""
        while self._unsent:
            try:
                self._socket.send_multipart(self._unsent[0], zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            self._unsent.popleft()

    def receive(self) -> Optional[List[Any]]:
        """The parts of the next message, as buffers that keep their memory alive; None when there is none."""
        try:
            return [part.buffer for part in self._socket.recv_multipart(zmq.NOBLOCK, copy=False)]
        except zmq.Again:
            return None

    def close(self, farewell: List[Any]) -> None:
        """Sends one last message, if connected, and closes."""
        self._leave(farewell)
        self._context.term()

    def _leave(self, farewell: List[Any]) -> None:
        self._unsent.clear()
        self.send(farewell)
        self._unsent.clear()
        self._socket.disable_monitor()
        self._events.close(linger=0)
        self._socket.close(linger=_GOODBYE_MS)
