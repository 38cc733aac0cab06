"""A daemon that does what a test tells it, one message at a time, and the clients that talk to it."""
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

try:
    import numpy as np
    import zmq
except ImportError as missing:
    raise unittest.SkipTest(f"{missing.name} is missing")

from penstock import Client, control, wire  # noqa: E402
from penstock.control import ErrorBody, PipelineDescription, SessionOpened, TensorDescription, Welcome  # noqa: E402
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
