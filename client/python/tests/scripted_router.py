"""A scripted daemon: a ROUTER socket, and a Unix socket that hands out shared memory. It does what a test tells it, one
message at a time."""
import fcntl
import mmap
import os
import socket
import struct
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

try:
    import numpy as np
    import zmq
except ImportError as missing:
    raise unittest.SkipTest(f"{missing.name} is missing")

from penstock import Client, control, wire  # noqa: E402
from penstock.control import (Attached, ErrorBody, PipelineDescription, SessionOpened, TensorDescription,  # noqa: E402
                              Welcome)
from penstock.wire import MessageType  # noqa: E402

#: Longer than any test needs; only a failing one waits that long.
PATIENCE_S = 20
#: Until an impatient client sends again what has no answer: long beside what the router takes for one.
IMPATIENT_S = 0.25

SPECTRUM = PipelineDescription(0, "spectrum", 16, TensorDescription("input", "u8", "cu8", (4, 2), False, ""), (
    TensorDescription("psd", "f32", "f32", (4,), False, "power_spectrum"),
    TensorDescription("stats", "f32", "f32", (5,), False, "moments")))
SCALED = PipelineDescription(1, "scaled", 16, TensorDescription("input", "f32", "f32", (8,), True, ""), (
    TensorDescription("out", "f32", "f32", (8,), True, "affine"),))
LARGE = PipelineDescription(2, "large", 2, TensorDescription("input", "f32", "f32", (1 << 20,), False, ""), (
    TensorDescription("out", "f32", "f32", (1,), False, "moments"),))
DECIMATED = PipelineDescription(3, "decimated", 16, TensorDescription("input", "f32", "f32", (8,), True, ""), (
    TensorDescription("out", "f32", "f32", (8,), True, "fir"),), keeps_state=True, period=4)

#: What brings the client back to its place.
TOKEN = "0123456789abcdef" * 2


def welcome(**given):
    """What the scripted daemon grants, changed in part."""
    fields = dict(server="penstockd test", instance="first", credit_requests=64, credit_bytes=1 << 30,
                  max_request_bytes=1 << 30, pipelines=(SPECTRUM, SCALED, LARGE, DECIMATED), resume=TOKEN)
    fields.update(given)
    return Welcome(**fields)


class Message:
    """What a client sent."""

    def __init__(self, parts):
        self.client, self.parts = parts[0], parts[1:]
        self.header = wire.decode_header(self.parts[0])
        self.type = MessageType(self.header.type)
        self.id = self.header.request_id

    def token(self):
        """What a HELLO shows."""
        return control.decode(control.Hello, self.parts[1]).resume

    def array(self):
        """The tensor of a SUBMIT, frames first."""
        tensor = wire.decode_tensor(self.parts[0], self.header, 0)
        payload, = self.parts[1:] or wire.inline_payloads(self.parts[0], self.header)
        return np.frombuffer(payload, wire.dtype_of(tensor)).reshape(tensor.shape)


class Router:
    """The daemon's side. One thread."""

    def __init__(self):
        self._bind("tcp://127.0.0.1:*")

    def _bind(self, url):
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.bind(url)
        self.url = self._socket.getsockopt(zmq.LAST_ENDPOINT).decode().rstrip("\0")

    def restart(self):
        """Breaks every connection and listens again at the same address."""
        self.close()
        self._bind(self.url)

    def close(self):
        self._context.destroy(linger=0)

    def receive(self):
        """The next message of any client."""
        if not self._socket.poll(1000 * PATIENCE_S):
            raise AssertionError("the client sent nothing")
        return Message(self._socket.recv_multipart())

    def expect(self, kind):
        """The next message, which must be of that type."""
        message = self.receive()
        if message.type != kind:
            raise AssertionError(f"the client sent {message.type!r}, not {kind!r}")
        return message

    def until(self, kind):
        """The next message of that type, and how many HELLOs came, and were answered, before it."""
        hellos = 0
        message = self.receive()
        while message.type == MessageType.HELLO != kind:
            hellos += 1
            self.welcome(message)
            message = self.receive()
        if message.type != kind:
            raise AssertionError(f"the client sent {message.type!r}, not {kind!r}")
        return message, hellos

    def skip_to(self, kind):
        """The next message of that type. HELLOs before it are answered, others are not."""
        message = self.receive()
        while message.type != kind:
            if message.type == MessageType.HELLO:
                self.welcome(message)
            message = self.receive()
        return message

    def send(self, to, *parts):
        """Those bytes to the client that sent a message."""
        self._socket.send_multipart([to.client, *parts])

    def send_header(self, to, kind, *bodies, **fields):
        """A message without tensors."""
        self.send(to, wire.encode_header(wire.Header(kind, fields.pop("request_id", to.id), **fields)), *bodies)

    def welcome(self, hello, **given):
        """Answers HELLO."""
        self.send_header(hello, MessageType.WELCOME, control.encode(welcome(**given)))

    def result(self, to, *arrays, inlined=False):
        """Answers SUBMIT. Each array has its frames dimension. `inlined`: in one part."""
        arrays = [np.ascontiguousarray(array) for array in arrays]
        head = wire.encode_header(wire.Header(MessageType.RESULT, to.id, pipeline=to.header.pipeline,
                                              session=to.header.session, sequence=to.header.sequence,
                                              tensors=len(arrays), frames=to.header.frames,
                                              trace_id=to.header.trace_id))
        head += b"".join(wire.encode_tensor(wire.tensor_header(array)) for array in arrays)
        payloads = [array.tobytes() for array in arrays]
        self.send(to, *([b"".join([head, *payloads])] if inlined else [head, *payloads]))

    def error(self, to, status, reason="no", step="", stage="", device_error="", sequence=None, holds=False):
        """Answers with ERROR."""
        self.send_header(to, MessageType.ERROR, control.encode(ErrorBody(reason, step, stage, device_error, holds)),
                         status=status, session=to.header.session,
                         sequence=to.header.sequence if sequence is None else sequence)

    def opened(self, to, session=5, next_sequence=0):
        """Answers OPEN."""
        self.send_header(to, MessageType.SESSION_OPENED, control.encode(SessionOpened(session, next_sequence)),
                         session=session)


class RouterTest(unittest.TestCase):
    """Tests of a client against the scripted daemon."""

    def setUp(self):
        self.router = Router()
        self.addCleanup(self.router.close)
        self.others = ThreadPoolExecutor(8)
        self.addCleanup(self.others.shutdown)

    def aside(self, function, *arguments, **named):
        """Runs it on another thread; its result is a future."""
        return self.others.submit(function, *arguments, **named)

    def connect(self, greeting=None, **options):
        """A client that has been welcomed. Closed at the end of the test."""
        options.setdefault("retry_after", 60)
        connecting = self.aside(Client, self.router.url, connect_timeout=PATIENCE_S, **options)
        self.router.welcome(self.router.expect(MessageType.HELLO), **(greeting or {}))
        client = connecting.result(PATIENCE_S)
        self.addCleanup(client.close)
        return client

    def open_session(self, client, number=5, pipeline="decimated", **options):
        """A session that the daemon has opened under that number."""
        opening = self.aside(client.session, pipeline, timeout=PATIENCE_S, **options)
        self.router.opened(self.router.expect(MessageType.OPEN_SESSION), number)
        return self.wait(opening)

    def submit(self, session, *blocks, **options):
        """Submits blocks of samples, or of frames of them: their futures, and the messages that came."""
        futures = [session.submit(np.asarray(block, np.float32), frames=len(block) if np.ndim(block) > 1 else None,
                                  **options) for block in blocks]
        return futures, [self.router.expect(MessageType.SUBMIT) for _ in blocks]

    def expect_nothing_before_a_ping(self, client):
        """What the client sent so far has been received: a PING sent now is the next message."""
        ping = self.aside(client.ping, PATIENCE_S)
        self.router.send_header(self.router.expect(MessageType.PING), MessageType.PONG)
        return self.wait(ping)

    def wait(self, future):
        """The future's result, or its exception raised."""
        return future.result(PATIENCE_S)

    def error_of(self, future):
        """The exception that the future ends with."""
        error = future.exception(PATIENCE_S)
        self.assertIsNotNone(error)
        return error


def iq(frames=1):
    """Frames for `spectrum`."""
    return np.arange(frames * 8, dtype=np.uint8).reshape(frames, 4, 2)


def spectra(frames=1):
    """Outputs of `spectrum`."""
    return (np.arange(frames * 4, dtype=np.float32).reshape(frames, 4),
            np.arange(frames * 5, dtype=np.float32).reshape(frames, 5) + 100)


# Shared memory.

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


class ArenaListener:
    """Lends one arena after the other."""

    def __init__(self):
        self.name = "@penstock-" + os.urandom(8).hex()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind("\0" + self.name[1:])
        self._listener.listen()
        self._listener.settimeout(PATIENCE_S)
        self._connections = []
        self._backlog = []

    def close(self):
        for each in [self._listener, *self._connections, *self._backlog]:
            each.close()

    def fill_backlog(self):
        """Lets others wait until there is no room for one more."""
        self._listener.listen(1)
        while True:
            other = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._backlog.append(other)
            other.setblocking(False)
            try:
                other.connect("\0" + self.name[1:])
            except BlockingIOError:
                return
            assert len(self._backlog) < 1000

    def clear_backlog(self):
        """Lets in all that wait there, and sends them away."""
        for _ in self._backlog[1:]:  # one of them did not get in
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
        self.arenas = ArenaListener()
        self.addCleanup(self.arenas.close)
        without_pause = mock.patch("penstock.shared_memory._FIRST_PAUSE_S", 0)
        without_pause.start()
        self.addCleanup(without_pause.stop)

    def attach(self, number=3, nbytes=1 << 21):
        """Answers the ATTACH that comes next: what was lent."""
        attach = self.router.expect(MessageType.ATTACH)
        self.tell_where(attach)
        return self.arenas.lend(number, nbytes)

    def tell_where(self, attach, socket=None):
        """Answers ATTACH."""
        self.router.send_header(attach, MessageType.ATTACHED,
                                control.encode(Attached(socket or self.arenas.name, _TICKET)))

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
