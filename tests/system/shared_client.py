"""A client that shares memory with the daemon, message by message, and the fixture of its tests."""

import array
import contextlib
import fcntl
import json
import mmap
import os
import socket
import struct
import unittest

import numpy as np

from daemon_process import VERSION, Daemons, pipeline, wait_until
from raw_client import RawClient

ATTACH, ATTACHED, SUBMIT_SHARED, RESULT_SHARED, RELEASED, ERROR = 14, 15, 18, 34, 35, 33
PLACE = struct.Struct("<IIQQQ")
RECORD = struct.Struct("<4sIQ")
REPEAT = 1


class Arena:
    """The lease of an arena: its mapping, and the connection that keeps it."""

    def __init__(self, where, ticket):
        """Raises ConnectionError when the daemon gives none."""
        self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.connection.settimeout(10)
        self.connection.connect("\0" + where[1:] if where.startswith("@") else where)
        self.connection.sendall(ticket.encode())
        record, ancillary, _, _ = self.connection.recvmsg(RECORD.size, socket.CMSG_SPACE(4))
        if len(record) != RECORD.size:
            self.connection.close()
            raise ConnectionError("the daemon gives no arena")
        magic, self.number, self.bytes = RECORD.unpack(record)
        descriptors = array.array("i")
        descriptors.frombytes(ancillary[0][2])
        self.descriptor = descriptors[0]
        self.memory = mmap.mmap(self.descriptor, self.bytes)
        if magic != b"PNSM":
            raise ConnectionError(f"the daemon says {record}")

    def seals(self):
        return fcntl.fcntl(self.descriptor, fcntl.F_GET_SEALS)

    def end(self):
        self.leave()
        self.memory.close()

    def leave(self):
        """Ends the lease, and keeps the mapping."""
        self.connection.close()
        os.close(self.descriptor)

    def ended(self):
        """Whether the daemon has closed the connection; waits for it."""
        return self.connection.recv(1) == b""


class SharedClient(RawClient):
    def ticket(self, size):
        """(socket, ticket), or the ERROR's header and body."""
        header, body = self._ask(ATTACH, {"bytes": size})
        return (body["socket"], body["ticket"]) if header.type == ATTACHED else (header, body)

    def attach(self, size):
        return Arena(*self.ticket(size))

    def send_place(self, pipeline, tensor, place, frames=1, session=0, sequence=0, timeout_ns=0, request=None):
        """SUBMIT_SHARED. `tensor`: a tensor header, or a list of them. The request's id."""
        wire = self.wire
        if request is None:
            self.requests += 1
            request = self.requests
        tensors = tensor if isinstance(tensor, list) else [tensor]
        header = wire.Header(SUBMIT_SHARED, request, timeout_ns, self.pipelines[pipeline], session, sequence,
                             tensors=len(tensors), frames=frames)
        self.socket.send_multipart([wire.encode_header(header) + b"".join(map(wire.encode_tensor, tensors)), place])
        return request

    def receive(self):
        """The next message: its header, its tensor headers, and its JSON (None where it has none)."""
        parts = self.socket.recv_multipart()
        header = self.wire.decode_header(parts[0])
        tensors = [self.wire.decode_tensor(parts[0], header, index) for index in range(header.tensors)]
        if header.type == RESULT_SHARED and len(parts[0]) != header.header_len + 80 * header.tensors:
            raise RuntimeError("a result in shared memory has bytes behind its headers")
        return header, tensors, json.loads(parts[1]) if len(parts) > 1 else None

    def submit_shared(self, pipeline, arena, frames, at=0, room=None, session=0, sequence=0):
        """Frames ([frames, …]) through the arena. Its outputs as arrays, copied out of it."""
        import numpy as np
        data = frames.tobytes()
        arena.memory[at:at + len(data)] = data
        output = at + (len(data) + 63) // 64 * 64
        room = arena.bytes - output if room is None else room
        self.send_place(pipeline, self.wire.tensor_header(frames), PLACE.pack(arena.number, 0, at, output, room),
                        frames.shape[0], session, sequence)
        header, tensors, body = self.receive()
        if header.type != RESULT_SHARED:
            raise RuntimeError(f"{header} {body}")
        outputs = []
        for tensor in tensors:
            outputs.append(np.frombuffer(arena.memory, self.wire.dtype_of(tensor), tensor.nbytes // self.wire.dtype_of(
                tensor).itemsize, output).reshape(tensor.shape).copy())
            output += (tensor.nbytes + 63) // 64 * 64
        return outputs


LENGTH, SLOW_LENGTH = 4096, 1 << 16
TWO = [("v", "convert", ""), ("psd", "power_spectrum", 'from = "v"\n'), ("size", "magnitude", 'from = "v"\n')]
SLOW = ("y", "correlate", f'mode = "same"\nmethod = "direct"\ntemplate = {[1] * SLOW_LENGTH}\n')
CONFIGURATION = (
    VERSION + '[device]\nslots = 4\nstreams = 2\n[shared_memory]\nmax_bytes = "64 MiB"\nmax_client_bytes = "32 MiB"\n'
    + pipeline("scale", "f32", [LENGTH], [("y", "affine", "a = 2\nb = 1\n")], ["y"])
    + pipeline("two", "cu8", [LENGTH], TWO, ["psd", "size"])
    + pipeline("any", "f32", [f"max {LENGTH}"], [("y", "affine", "a = 3\n")], ["y"])
    + pipeline("fir", "f32", [f"max {LENGTH}"], [("y", "fir", "taps = [1, 2, 3, 4, 5]\ndecimation = 3\n")], ["y"]))
# With a pipeline whose frames take the host some tenths of a second.
SLOW_CONFIGURATION = CONFIGURATION + pipeline("slow", "f32", [SLOW_LENGTH], [SLOW], ["y"],
                                              "batch = { max_frames = 2 }\n")
MIB = 1 << 20
UNKNOWN_ARENA, BAD_PLACE, UNKNOWN_REPEAT, TOO_LARGE, EXPIRED = 0x0110, 0x0111, 0x0112, 0x0108, 0x0200


def noise(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


class SharingTest(unittest.TestCase):
    text = CONFIGURATION  #: what its daemons serve

    @classmethod
    def setUpClass(cls):
        cls.daemons = Daemons(cls.text)
        cls.addClassCleanup(cls.daemons.stop)

    @contextlib.contextmanager
    def client(self, daemon, size=8 * MIB):
        """A client, and an arena that is gone again at the end."""
        with SharedClient(daemon.url) as client:
            arena = client.attach(size)
            try:
                yield client, arena
            finally:
                arena.end()
        wait_until(lambda: self.shared(daemon)["arenas"] == 0, "the memory comes back")

    def shared(self, daemon):
        return daemon.counters()["status"]["shared_memory"]

    def refusal(self, client, pipeline, frames, place, **more):
        """The status of the ERROR that a place gets."""
        client.send_place(pipeline, client.wire.tensor_header(frames), place, frames.shape[0], **more)
        header, _, body = client.receive()
        self.assertEqual(header.type, ERROR, header)
        self.assertFalse(body.get("holds"), "what was refused holds nothing")
        return header.status
