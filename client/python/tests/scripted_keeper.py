"""The scripted daemon's side of shared memory: a Unix socket, and arenas of its own."""
import fcntl
import mmap
import os
import socket
import struct
from unittest import mock

from scripted_router import PATIENCE_S, RouterTest

import numpy as np

from penstock import Client, control, wire
from penstock.control import Attached, PipelineDescription, TensorDescription
from penstock.wire import MessageType

_ADD_SEALS, SHRINK, GROW = 1033, 2, 4
_TICKET = "0123456789abcdef" * 2

FLOATS = 1 << 15  # of a frame: 128 KiB
_INPUT = TensorDescription("input", "f32", "f32", (FLOATS,), True, "")
_OUTPUTS = (TensorDescription("top", "f32", "f32", (3,), False, "moments"),
            TensorDescription("out", "f32", "f32", (FLOATS,), True, "affine"))
WIDE = PipelineDescription(4, "wide", 4, _INPUT, _OUTPUTS)
TRACKED = PipelineDescription(5, "tracked", 4, _INPUT, _OUTPUTS, keeps_state=True)
#: Large frames in, and little out.
PEAK = PipelineDescription(6, "peak", 4, _INPUT, _OUTPUTS[:1])
#: And the other way round.
TALL = PipelineDescription(7, "tall", 4, _INPUT, (TensorDescription("out", "f32", "f32", (FLOATS,), False, "affine"),))
#: What one request of one frame takes up: input, "top", "out".
ROOM = 4 * FLOATS + 64 + 4 * FLOATS


class LentArena:
    """What the daemon lent, in its own mapping."""

    def __init__(self, number, nbytes, connection, seals=SHRINK | GROW):
        self.number, self.nbytes = number, nbytes
        self._connection = connection
        descriptor = os.memfd_create("arena", os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, nbytes)
        fcntl.fcntl(descriptor, _ADD_SEALS, seals)
        self.bytes = np.frombuffer(mmap.mmap(descriptor, nbytes), np.uint8)
        socket.send_fds(connection, [struct.pack("<4sIQ", b"PNSM", number, nbytes)], [descriptor])
        os.close(descriptor)

    def end(self):
        """Ends the lease."""
        self._connection.close()

    def wait_for_the_end(self):
        """Until the client has ended the lease."""
        assert self._connection.recv(1) == b""

    def input(self, message):
        """The frames of a SUBMIT_SHARED where they lie."""
        place, tensor = place_of(message), wire.decode_tensor(message.parts[0], message.header, 0)
        lying = self.bytes[place.input:place.input + tensor.nbytes]
        return lying.view(wire.dtype_of(tensor)).reshape(tensor.shape)

    def output(self, message, *shapes):
        """Room for its outputs of f32, of those shapes, where they are to lie."""
        place = place_of(message)
        begin, rooms = place.output, []
        for shape in shapes:
            nbytes = 4 * int(np.prod(shape))
            rooms.append(self.bytes[begin:begin + nbytes].view(np.float32).reshape(shape))
            begin += wire.room_for(nbytes)
        assert begin <= place.output + place.output_bytes <= self.nbytes
        return rooms


class Keeper:
    """Lends one arena after the other."""

    def __init__(self):
        self.name = "@penstock-" + os.urandom(8).hex()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind("\0" + self.name[1:])
        self._listener.listen()
        self._listener.settimeout(PATIENCE_S)
        self._connections = []
        self._crowd = []

    def close(self):
        for each in [self._listener, *self._connections, *self._crowd]:
            each.close()

    def fill(self):
        """Lets others wait until there is no room for one more."""
        self._listener.listen(1)
        while True:
            other = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._crowd.append(other)
            other.setblocking(False)
            try:
                other.connect("\0" + self.name[1:])
            except BlockingIOError:
                return
            assert len(self._crowd) < 1000

    def turn_the_others_away(self):
        """Lets in all that wait there, and sends them away."""
        for _ in self._crowd[1:]:  # one of them did not get in
            self._listener.accept()[0].close()

    def accept(self):
        """The next connection, which has shown the ticket."""
        connection = self._listener.accept()[0]
        self._connections.append(connection)
        connection.settimeout(PATIENCE_S)
        ticket = b""
        while len(ticket) < len(_TICKET):
            ticket += connection.recv(len(_TICKET) - len(ticket))
        assert ticket == _TICKET.encode()
        return connection

    def lend(self, number=3, nbytes=1 << 21):
        """Gives the next that comes an arena."""
        return LentArena(number, nbytes, self.accept())


class SharedMemoryTest(RouterTest):
    """Tests of a client against the scripted daemon that shares memory."""

    greeting = {"shared_bytes": 1 << 30, "pipelines": (WIDE, TRACKED, PEAK, TALL)}

    def setUp(self):
        super().setUp()
        self.keeper = Keeper()
        self.addCleanup(self.keeper.close)
        without_pause = mock.patch("penstock.shared_memory._FIRST_PAUSE_S", 0)
        without_pause.start()
        self.addCleanup(without_pause.stop)

    def attach(self, number=3, nbytes=1 << 21):
        """Answers the ATTACH that comes next: what was lent."""
        attach = self.router.expect(MessageType.ATTACH)
        self.tell_where(attach)
        return self.keeper.lend(number, nbytes)

    def tell_where(self, attach, socket=None):
        """Answers ATTACH."""
        self.router.send_header(attach, MessageType.ATTACHED,
                                control.encode(Attached(socket or self.keeper.name, _TICKET)))

    def next_of(self, *kinds):
        """The next message of those types. HELLOs before it are answered, others are not."""
        message = self.router.receive()
        while message.type not in kinds:
            if message.type == MessageType.HELLO:
                self.router.welcome(message, **self.greeting)
            message = self.router.receive()
        return message

    def connect_shared(self, nbytes=1 << 21, **options):
        """A client with an arena, and the daemon's side of that."""
        options.setdefault("retry_after", 60)
        connecting = self.aside(Client, self.router.url, connect_timeout=PATIENCE_S, transport="shm",
                                shared_bytes=nbytes, **options)
        self.router.welcome(self.router.expect(MessageType.HELLO), **self.greeting)
        lent = self.attach(nbytes=nbytes)
        client = self.wait(connecting)
        self.addCleanup(client.close)
        return client, lent

    def result_shared(self, message, *shapes):
        """Answers SUBMIT_SHARED."""
        tensors = [wire.TensorHeader(2, 32, 4 * int(np.prod(shape)), shape) for shape in shapes]
        head = wire.encode_header(wire.Header(MessageType.RESULT_SHARED, message.id, session=message.header.session,
                                              sequence=message.header.sequence, tensors=len(shapes),
                                              frames=message.header.frames))
        self.router.send(message, head + b"".join(map(wire.encode_tensor, tensors)))

    def run_shared(self, lent, message, value=0.0):
        """Does what `wide` does: the output is the input and `value`, and top is `value`."""
        frames = lent.input(message)
        top, out = lent.output(message, (len(frames), 3), frames.shape)
        top[:], out[:] = value, frames + np.float32(value)
        self.result_shared(message, top.shape, out.shape)

    def answer(self, message, value):
        """Answers a SUBMIT as `wide` does."""
        frames = message.array()
        self.router.result(message, np.full((len(frames), 3), value, np.float32), frames + np.float32(value))

    def submit_shared(self, client, *values, to="wide"):
        """Submits frames: their futures, and the messages that came."""
        submit = to.submit if not isinstance(to, str) else lambda x: client.submit(to, x)
        futures = [submit(frame(value)) for value in values]
        return futures, [self.router.expect(MessageType.SUBMIT_SHARED) for _ in values]

    def attach_again(self, client, number):
        """The client, which has noticed that it has none, asks for another arena: what it was lent."""
        self.expect_nothing_before_a_ping(client)
        arriving = self.aside(client.empty, 1, np.uint8)
        lent = self.attach(number)
        self.wait(arriving)
        self.assertEqual(client.transport, "shm")
        return lent


def place_of(message):
    """Part 1 of a SUBMIT_SHARED."""
    return wire.decode_place(message.parts[1])


def frame(value=1.0, length=FLOATS):
    """A frame of `wide`."""
    return np.full(length, value, np.float32)
