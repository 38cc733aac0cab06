"""The loop of the servers that one writes by hand in Python: a ROUTER that gathers what has arrived and answers it.

It speaks enough of Penstock's protocol (proto/PROTOCOL.md) that `penstock bench` can load it: pipelines of one f32
output, one frame a request, with sessions or without.
"""

import collections
import json
import struct

import zmq

HEADER = struct.Struct("<4sBBHQQIIQHHI16s")
TENSOR = struct.Struct("<BBHB3xQ8q")
HELLO, WELCOME, PING, PONG, OPEN, OPENED, SUBMIT, RESULT = 1, 2, 4, 5, 8, 9, 16, 32


class Work:
    """What the server computes: `run` makes rows of `results` floats of payloads of `length` elements. Where it keeps
    state, it gets the numbers of the payloads' sessions too, each at most once."""

    def __init__(self, pipeline, output, op, length, results, element="f32", keeps_state=False):
        self.pipeline, self.output, self.op, self.length, self.results = pipeline, output, op, length, results
        self.element, self.keeps_state = element, keeps_state
        self.tensor = TENSOR.pack(2, 32, 1, 2, results * 4, 1, results, 0, 0, 0, 0, 0, 0)

    def run(self, payloads, *sessions):
        raise NotImplementedError

    def described(self, number):
        def tensor(name, op, length, element="f32"):
            return {"name": name, "dtype": element, "element": element, "shape": [length], "variable": False, "op": op}
        return {"id": number, "name": self.pipeline, "max_frames": 1, "keeps_state": self.keeps_state,
                "input": tensor("input", "", self.length, self.element),
                "outputs": [tensor(self.output, self.op, self.results)]}


def header(kind, request_id, pipeline=0, frames=0, tensors=0, session=0, sequence=0):
    return HEADER.pack(b"PNSK", 1, kind, HEADER.size, request_id, 0, pipeline, session, sequence, tensors, 0, frames,
                       bytes(16))


def welcome(name, works):
    return json.dumps({"server": name, "instance": "1", "credit_requests": 1024, "credit_bytes": 1 << 30,
                       "max_request_bytes": 1 << 27,
                       "pipelines": [work.described(at) for at, work in enumerate(works)]}).encode()


def serve(endpoint, name, works, max_batch):
    """Never returns. With max_batch = 1 each request is answered before the next is read."""
    socket = zmq.Context().socket(zmq.ROUTER)
    socket.set_hwm(0)
    socket.bind(endpoint)
    poller = zmq.Poller()
    poller.register(socket, zmq.POLLIN)
    waiting = collections.defaultdict(list)  # by pipeline: (client, request id, payload, session, sequence)
    sessions = 0
    while True:
        poller.poll(0 if any(waiting.values()) else None)
        for _ in range(max_batch):
            try:
                parts = socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            _, _, kind, _, request_id, _, pipeline, session, sequence, *_ = HEADER.unpack_from(parts[1])
            if kind == SUBMIT:
                # A small payload lies behind the headers.
                payload = parts[2] if len(parts) > 2 else memoryview(parts[1])[HEADER.size + TENSOR.size:]
                waiting[pipeline].append((parts[0], request_id, payload, session, sequence))
            elif kind == HELLO:
                socket.send_multipart([parts[0], header(WELCOME, request_id), welcome(name, works)])
            elif kind == PING:
                socket.send_multipart([parts[0], header(PONG, request_id)])
            elif kind == OPEN:
                sessions += 1
                socket.send_multipart([parts[0], header(OPENED, request_id, session=sessions),
                                       json.dumps({"session": sessions, "next_sequence": 0}).encode()])
        for pipeline, requests in waiting.items():
            if not requests:
                continue
            work, later = works[pipeline], []
            if work.keeps_state:
                requests, later = first_of_each_session(requests)
                results = work.run([each[2] for each in requests], [each[3] for each in requests])
            else:
                results = work.run([each[2] for each in requests])
            for (client, request_id, _, session, sequence), row in zip(requests, results):
                head = header(RESULT, request_id, pipeline, 1, 1, session, sequence) + work.tensor
                socket.send_multipart([client, head, row], copy=False)
            waiting[pipeline] = later


def first_of_each_session(requests):
    """Those that can run together, and the others, in order."""
    seen, first, later = set(), [], []
    for each in requests:
        (later if each[3] in seen else first).append(each)
        seen.add(each[3])
    return first, later
