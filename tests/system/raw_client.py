"""Clients that speak the wire protocol by hand, valid or not, one message at a time."""

import json
import os


class RawClient:
    """Speaks the wire protocol over a DEALER socket of its own; needs pyzmq and the penstock package."""

    def __init__(self, url):
        import zmq
        from penstock import wire
        self.wire = wire
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.ROUTING_ID, b"\x01" + os.urandom(15))
        self.socket.setsockopt(zmq.RCVTIMEO, 10000)
        self.socket.setsockopt(zmq.LINGER, 1000)
        self.socket.connect(url)
        self.requests = 0
        _, welcome = self._ask(wire.MessageType.HELLO, {"client": "raw", "version": "1", "inline_bytes": 4096})
        self.pipelines = {each["name"]: each["id"] for each in welcome["pipelines"]}

    def open(self, pipeline):
        """The number of a new session."""
        _, opened = self._ask(self.wire.MessageType.OPEN_SESSION, {"pipeline": self.pipelines[pipeline], "name": ""})
        return opened["session"]

    def submit(self, pipeline, samples, session=0, sequence=0):
        """One frame. The answer: its header, and the body of an ERROR (None of a RESULT)."""
        wire, frame = self.wire, samples[None]
        self.requests += 1
        header = wire.Header(wire.MessageType.SUBMIT, self.requests, pipeline=self.pipelines[pipeline], session=session,
                             sequence=sequence, tensors=1, frames=1)
        self.socket.send_multipart([wire.encode_header(header) + wire.encode_tensor(wire.tensor_header(frame)),
                                    frame.tobytes()])
        return self._answer()

    def submit_all(self, pipeline, tensors, parts=None, announced=None):
        """A request with a tensor for each input, and these payloads instead of theirs. The answer as of `submit`."""
        wire = self.wire
        self.requests += 1
        header = wire.Header(wire.MessageType.SUBMIT, self.requests, pipeline=self.pipelines[pipeline],
                             tensors=announced or len(tensors), frames=len(tensors[0]))
        head = wire.encode_header(header) + b"".join(wire.encode_tensor(wire.tensor_header(each)) for each in tensors)
        self.socket.send_multipart([head, *([each.tobytes() for each in tensors] if parts is None else parts)])
        return self._answer()

    def _ask(self, kind, body=None, **fields):
        """The answer to a control message: its header, and its body."""
        self.requests += 1
        head = self.wire.encode_header(self.wire.Header(kind, self.requests, **fields))
        self.socket.send_multipart([head] if body is None else [head, json.dumps(body).encode()])
        return self._answer()

    def _answer(self):
        parts = self.socket.recv_multipart()
        header = self.wire.decode_header(parts[0])
        results = (self.wire.MessageType.RESULT, self.wire.MessageType.RESULT_SHARED)
        return header, None if header.type in results else json.loads(parts[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.send(self.wire.encode_header(self.wire.Header(self.wire.MessageType.GOODBYE)))
        self.socket.close()
        self.context.term()


class RawDealer:
    """One connection to the daemon, whatever it says over it."""

    def __init__(self, context, url, routing_id=None, keys=None):
        import zmq
        from penstock import control, wire
        self.control, self.wire = control, wire
        self.socket = context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RCVTIMEO, 20000)
        if routing_id is not None:
            self.socket.setsockopt(zmq.ROUTING_ID, routing_id)
        if keys is not None:
            keys.arm(self.socket)
        self.socket.connect(url)

    def send(self, kind, request_id=0, body=None):
        parts = [self.wire.encode_header(self.wire.Header(kind, request_id))]
        self.socket.send_multipart(parts if body is None else parts + [body])

    def receive(self):
        """The next message, its header and its parts, but for the daemon's looks at the connection."""
        while True:
            parts = self.socket.recv_multipart()
            header = self.wire.decode_header(parts[0])
            if header.type != self.wire.MessageType.PONG or header.request_id != 0:
                return header, parts

    def ask(self, kind, body=None):
        self.send(kind, 1, body)
        return self.receive()

    def hello(self, token=""):
        """The WELCOME to a HELLO that shows that token."""
        header, parts = self.ask(self.wire.MessageType.HELLO,
                                 self.control.encode(self.control.Hello("raw", "1", resume=token)))
        assert header.type == self.wire.MessageType.WELCOME, parts
        return self.control.decode(self.control.Welcome, parts[1])

    def close(self):
        self.socket.close()
