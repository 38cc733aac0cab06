"""The keys of an encrypted connection (ZeroMQ's CURVE)."""
from __future__ import annotations

import os
import stat
from typing import NamedTuple, Optional

import zmq

_LETTERS = 40  # of Z85
_Z85 = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#")


class Keys(NamedTuple):
    """The three keys, each in Z85."""
    server: bytes
    public: bytes
    secret: bytes

    def arm(self, socket: zmq.Socket[bytes]) -> None:
        """Sets the keys of a socket that is not connected yet."""
        socket.setsockopt(zmq.CURVE_SERVERKEY, self.server)
        socket.setsockopt(zmq.CURVE_PUBLICKEY, self.public)
        socket.setsockopt(zmq.CURVE_SECRETKEY, self.secret)


def read_keys(server_key: Optional[str], key_file: Optional[str]) -> Optional[Keys]:
    """Reads the keys; None when none are given. Raises ValueError when one is missing or malformed or when others can read
    the file, OSError when it is unreadable. Errors never contain a key."""
    if not server_key and not key_file:
        return None
    if not server_key or not key_file:
        raise ValueError("an encrypted connection needs both server_key, the daemon's public key, and key_file, a file "
                         "of penstock keygen with a key of the client's own")
    server = server_key.encode()
    if not _is_key(server):
        raise ValueError("server_key is no public key: it has 40 letters of Z85, as penstock keygen prints it")
    secret = _secret_key(key_file)
    return Keys(server, zmq.curve_public(secret), secret)


def _is_key(text: bytes) -> bool:
    return len(text) == _LETTERS and _Z85.issuperset(text)


def _secret_key(path: str) -> bytes:
    # O_NONBLOCK: do not wait for a pipe.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY)) as file:
        found = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(found):
            raise ValueError(f"the key file {path} is no regular file")
        mode = stat.S_IMODE(found)
        if mode & 0o077:
            raise ValueError(f"the key file {path} has mode {mode:04o}, so that others can use the key in it: chmod 600 "
                             "it, and make a new key if somebody may have read this one")
        lines = [line.strip() for line in file]
    # A comment begins with "#", as no key does: in Z85 it would be a number beyond 32 bits there.
    keys = [line for line in lines if line and not line.startswith(b"#")]
    if len(keys) != 1 or not _is_key(keys[0]):
        raise ValueError(f"the key file {path} holds no secret key: one line of 40 letters of Z85, as penstock keygen "
                         "writes it")
    return keys[0]
