"""The loop of the servers that one writes by hand in Python: a ROUTER that gathers what has arrived and answers it.

It speaks enough of Penstock's protocol (proto/PROTOCOL.md) that `penstock bench` can load it: pipelines of one f32
output, one frame a request.
"""

import collections
import json
import struct

import zmq

HEADER = struct.Struct("<4sBBHQQIIQHHI16s")
TENSOR = struct.Struct("<BBHB3xQ8q")
HELLO, WELCOME, PING, PONG, SUBMIT, RESULT = 1, 2, 4, 5, 16, 32


class Work:
    """What the server computes: `run` makes rows of `results` floats of payloads of `length` floats."""

    def __init__(self, pipeline, output, op, length, results):
        self.pipeline, self.output, self.op, self.length, self.results = pipeline, output, op, length, results
        self.tensor = TENSOR.pack(2, 32, 1, 2, results * 4, 1, results, 0, 0, 0, 0, 0, 0)

    def run(self, payloads):
        raise NotImplementedError

    def described(self, number):
        def tensor(name, op, length):
            return {"name": name, "dtype": "f32", "element": "f32", "shape": [length], "variable": False, "op": op}
        return {"id": number, "name": self.pipeline, "max_frames": 1, "input": tensor("input", "", self.length),
                "outputs": [tensor(self.output, self.op, self.results)]}


def header(kind, request_id, pipeline=0, frames=0, tensors=0):
    return HEADER.pack(b"PNSK", 1, kind, HEADER.size, request_id, 0, pipeline, 0, 0, tensors, 0, frames, bytes(16))


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
    waiting = collections.defaultdict(list)  # by pipeline: (client, request id, payload)
    while True:
        poller.poll()
        for _ in range(max_batch):
            try:
                parts = socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            _, _, kind, _, request_id, _, pipeline, *_ = HEADER.unpack_from(parts[1])
            if kind == SUBMIT:
                waiting[pipeline].append((parts[0], request_id, parts[2]))
            elif kind == HELLO:
                socket.send_multipart([parts[0], header(WELCOME, request_id), welcome(name, works)])
            elif kind == PING:
                socket.send_multipart([parts[0], header(PONG, request_id)])
        for pipeline, requests in waiting.items():
            results = works[pipeline].run([payload for _, _, payload in requests])
            for (client, request_id, _), row in zip(requests, results):
                head = header(RESULT, request_id, pipeline, 1, 1) + works[pipeline].tensor
                socket.send_multipart([client, head, row], copy=False)
        waiting.clear()
