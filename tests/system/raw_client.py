"""A client that sends what a test tells it to, right or wrong, one message after the other."""

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

    def _ask(self, kind, body):
        self.requests += 1
        header = self.wire.Header(kind, self.requests)
        self.socket.send_multipart([self.wire.encode_header(header), json.dumps(body).encode()])
        return self._answer()

    def _answer(self):
        parts = self.socket.recv_multipart()
        header = self.wire.decode_header(parts[0])
        return header, None if header.type == self.wire.MessageType.RESULT else json.loads(parts[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.send(self.wire.encode_header(self.wire.Header(self.wire.MessageType.GOODBYE)))
        self.socket.close()
        self.context.term()
