"""Addresses of daemons: which ones are valid, what is there when no daemon answers, and which shard to use."""
from __future__ import annotations

import errno
import os
import re
import socket
import time
from typing import NamedTuple, Optional, Tuple

from .control import Welcome

_SHAPES = "an address is tcp://HOST:PORT or ipc://PATH, as in tcp://127.0.0.1:7600"
_LOOPBACK = "127.0.0.1"
_LONGEST_PATH = 107  # of a Unix socket
#: The start of a ZMTP 3 greeting: signature and major version.
_GREETING = b"\xff" + bytes(8) + b"\x7f\x03"
_GREETING_BYTES, _MECHANISM = 64, slice(12, 32)
_LONGEST_ATTEMPT_S = 1.0


class Endpoint(NamedTuple):
    """The address of a daemon."""
    transport: str
    host: str = ""  #: of tcp
    port: int = 0
    path: str = ""  #: of ipc; "@" and a name for an abstract socket


class EndpointReport(NamedTuple):
    """The result of inspect_endpoint."""
    text: str  #: what happened and what to try; "" when nothing wrong was found
    final: bool = False  #: a retry can't help
    absent: bool = False  #: nobody listens there, or the name can't be resolved
    refused: bool = False  #: a daemon is there but refuses this client's security mechanism


def unsupported(url: str) -> str:
    """The error text for a transport that ZeroMQ does not support."""
    return f"{url!r} can't be a daemon's: there is no transport {url.partition('://')[0]!r}; {_SHAPES}"


def resolve_localhost(url: str) -> str:
    """Replaces the host "localhost" by 127.0.0.1, as the daemon does: systems without /etc/hosts can't resolve it."""
    begin = "tcp://localhost:"
    return f"tcp://{_LOOPBACK}:{url[len(begin):]}" if url.startswith(begin) else url


def parse(url: str) -> Endpoint:
    """Parses a URL. Raises TypeError or ValueError, with the reason, when it is invalid."""
    if not isinstance(url, str):
        raise TypeError(f"a url is a str, not {type(url).__name__}: {_SHAPES}")
    transport, separator, rest = url.partition("://")
    if not separator:
        guess = f"; did you mean tcp://{url}?" if re.fullmatch(r"[\w.\[\]:-]+:\d+", url) else ""
        raise ValueError(f"{url!r} is no address: {_SHAPES}{guess}")
    if transport == "ipc":
        if not rest:
            raise ValueError(f"{url!r} names no socket: {_SHAPES}")
        if len(os.fsencode(rest)) > _LONGEST_PATH:
            raise ValueError(f"the path of {url!r} has {len(os.fsencode(rest))} bytes; a Unix socket's has at most "
                             f"{_LONGEST_PATH}")
        return Endpoint(transport, path=rest)
    if transport != "tcp":
        return Endpoint(transport)  # ZeroMQ rejects an unknown transport
    host, colon, port = rest.rpartition(";")[2].rpartition(":")
    if not colon or host.count("[") != host.count("]"):
        raise ValueError(f"{url!r} has no port: {_SHAPES}")
    if not (port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= 65535):
        raise ValueError(f"{url!r} has the port {port!r}; a port is a number from 1 to 65535, and a daemon's is 7600 "
                         "where its configuration says nothing else")
    if not host:
        raise ValueError(f"{url!r} has no host: {_SHAPES}")
    if host == "*":
        raise ValueError(f"{url!r} is where a daemon listens; a client needs the name or the address of its machine")
    return Endpoint(transport, host.strip("[]"), int(port))


def inspect_endpoint(url: str, has_keys: bool, deadline: float) -> EndpointReport:
    """Finds out why no daemon answers: connects, sends the start of a ZMTP greeting and reads the reply. deadline: in
    seconds of time.monotonic(); name resolution may take longer."""
    endpoint = parse(url)
    if endpoint.transport not in ("tcp", "ipc"):
        return EndpointReport("")
    try:
        places = _places(endpoint)
    except socket.gaierror as error:
        return EndpointReport(f"the name {endpoint.host!r} can't be resolved ({error.strerror}): is it spelled right, "
                              "and does this machine's name server know it?", final=error.errno != socket.EAI_AGAIN, absent=True)
    except UnicodeError:
        return EndpointReport(f"{endpoint.host!r} is no name of a machine", final=True)
    report = EndpointReport("")
    for family, place in places:
        left = min(_LONGEST_ATTEMPT_S, max(0.05, deadline - time.monotonic()))
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.settimeout(left)
            try:
                probe.connect(place)
            except OSError as error:
                report = _refusal(endpoint, error)
                continue
            return _read_greeting(probe, has_keys)
    return report


def _places(endpoint: Endpoint) -> Tuple[Tuple[int, object], ...]:
    if endpoint.transport == "ipc":
        path = "\0" + endpoint.path[1:] if endpoint.path.startswith("@") else endpoint.path
        return ((socket.AF_UNIX, path),)
    host = _LOOPBACK if endpoint.host == "localhost" else endpoint.host
    found = socket.getaddrinfo(host, endpoint.port, type=socket.SOCK_STREAM)
    return tuple((each[0], each[4]) for each in found)


def _refusal(endpoint: Endpoint, error: OSError) -> EndpointReport:
    if endpoint.transport == "ipc":
        if error.errno in (errno.EACCES, errno.EPERM):
            return EndpointReport("this user may not connect to the socket there (permission denied): see ipc_mode and "
                                  "ipc_group of the daemon's configuration", final=True)
        what = {errno.ENOENT: "there is no such socket", errno.ECONNREFUSED: "the daemon that made the socket is gone"}
        return EndpointReport(f"{what.get(error.errno or 0, error.strerror)}: is penstockd running, and does its "
                              "configuration listen there?", absent=True)
    if error.errno == errno.ECONNREFUSED:
        return EndpointReport("the connection is refused, so nobody listens there: is penstockd running, and does its "
                              "configuration listen at this address and port?", absent=True)
    if isinstance(error, (socket.timeout, TimeoutError)) or error.errno == errno.ETIMEDOUT:
        return EndpointReport("the machine does not answer: is it on, is the address right, does a firewall drop the "
                              "connection?")
    return EndpointReport(f"the machine can't be reached ({error.strerror}): is the address right?")


def _read_greeting(probe: socket.socket, has_keys: bool) -> EndpointReport:
    heard = b""
    try:
        probe.sendall(_GREETING)
        while len(heard) < _GREETING_BYTES and (piece := probe.recv(_GREETING_BYTES - len(heard))):
            heard += piece
            if heard[:1] != b"\xff":
                return EndpointReport("what listens there is no ZeroMQ: a daemon's data port is 7600 where its "
                                      "configuration says nothing else, and 7680 its admin HTTP", final=True)
    except socket.timeout:
        return EndpointReport("a connection stands, but nothing is said over it: is that penstockd's data port?")
    except OSError:
        pass  # closed
    if len(heard) < _GREETING_BYTES:
        return EndpointReport("the connection is closed at once: is a proxy there whose daemon is not running?")
    asks = heard[_MECHANISM].rstrip(b"\0") == b"CURVE"
    if asks and not has_keys:
        return EndpointReport("it asks for keys: give its public key (server_key) and a key_file of your own", final=True,
                              refused=True)
    if has_keys and not asks:
        return EndpointReport("it asks for no keys: leave server_key and key_file out", final=True, refused=True)
    return EndpointReport("")


def better_endpoint(welcome: Welcome, url: str) -> Optional[str]:
    """The endpoint of the shard that `welcome` assigns to a client connected to `url`. None when that is the answering
    shard, or when the shard has no endpoint that this client can use."""
    if welcome.shard == welcome.answering or max(welcome.shard, welcome.answering) >= len(welcome.shards):
        return None
    here = [_reachable(endpoint, url) for endpoint in welcome.shards[welcome.answering]]
    there = [_reachable(endpoint, url) for endpoint in welcome.shards[welcome.shard]]
    place = here.index(url) if url in here else len(there)
    if place < len(there):
        return there[place]
    return next((endpoint for endpoint in there if _transport(endpoint) == _transport(url)), None)


def _transport(url: str) -> str:
    return url.partition("://")[0]


def _reachable(endpoint: str, url: str) -> str:
    """Replaces a wildcard host by the host that the client connected to."""
    host, _, port = endpoint.rpartition(":")
    if host not in ("tcp://*", "tcp://0.0.0.0", "tcp://[::]") or _transport(url) != "tcp":
        return endpoint
    return f"{url.rpartition(':')[0]}:{port}"
