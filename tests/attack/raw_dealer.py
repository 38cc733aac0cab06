"""A DEALER that speaks the wire by hand. Needs pyzmq and the penstock package."""


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
