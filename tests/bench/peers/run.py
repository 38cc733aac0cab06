#!/usr/bin/env python3
"""Measures Penstock beside other servers on the same work, in turns, and prints a table.

Usage: run.py [--bin build/release/bin] [--tritonserver DIR] [--backend cuda] [--rounds 3] [--seconds 3] [--only NAME,...]

Each request is one frame of f32, each result its Hann power spectrum. README.md says what has to be installed.
"""

import argparse
import contextlib
import json
import os
import pathlib
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
LOADS = [  # name, bytes, clients, in flight of each
    ("4 KiB, 32 clients × 16", 4096, 32, 16),
    ("4 KiB, one at a time", 4096, 1, 1),
    ("256 KiB, 8 clients × 4", 262144, 8, 4),
]
CONFIGURATION = """config_version = 1
[daemon]
log_level = "warn"
[clients]
credit_requests = 1024
credit_bytes = "256 MiB"
""" + "".join(f"""[[pipeline]]
name = "spectrum_{length}"
input = {{ dtype = "f32", shape = [{length}] }}
[[pipeline.stage]]
name = "spectrum"
op = "power_spectrum"
""" for length in (1024, 65536))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A process that is started once and then loaded in turns."""

    def __init__(self, command, **environment):
        self.process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=sys.stderr)

    def wait_for(self, ready):
        limit = time.monotonic() + 120
        while not ready():
            if time.monotonic() > limit or self.process.poll() is not None:
                sys.exit(f"{type(self).__name__} does not start")
            time.sleep(0.2)

    def stop(self):
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        self.process.kill()


class PenstockProtocol(Server):
    """Loaded by `penstock bench`."""

    transport = "zmq"

    def load(self, options, size, clients, in_flight):
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            subprocess.run([options.bin / "penstock", "--url", self.url, "--transport", self.transport, "bench",
                            "--pipeline", f"spectrum_{size // 4}", "--clients", str(clients),
                            "--in-flight", str(in_flight), "--warmup", "500ms", "--duration", f"{options.seconds}s",
                            "--json", file.name], check=True, stdout=subprocess.DEVNULL)
            measured = json.load(file)
        return measured["requests_per_s"], measured["latency_us"]["p50"], measured["latency_us"]["p99"]

    def answers(self, options):
        return subprocess.run([options.bin / "penstock", "--url", self.url, "ping", "-n", "1"], capture_output=True,
                              check=False).returncode == 0


class Penstock(PenstockProtocol):
    def __init__(self, options, folder):
        self.url = f"tcp://127.0.0.1:{free_port()}"
        file = folder / "penstock.toml"
        file.write_text(CONFIGURATION)
        super().__init__([options.bin / "penstockd", "--config", file, "--listen", self.url, "--listen",
                          f"ipc://{folder}/penstock.sock", "--admin", "none", "--backend", options.backend])
        self.wait_for(lambda: self.answers(options))


class PenstockShared(Penstock):
    """The same with the frames in shared memory, which needs a client on this machine."""

    transport = "shm"

    def __init__(self, options, folder):
        super().__init__(options, folder)
        self.url = f"ipc://{folder}/penstock.sock"


class PyzmqTorch(PenstockProtocol):
    def __init__(self, options, _folder):
        self.url = f"tcp://127.0.0.1:{free_port()}"
        device = "cuda" if options.backend == "cuda" else "cpu"
        super().__init__([sys.executable, HERE / "pyzmq_torch.py", self.url, "--device", device])
        self.wait_for(lambda: self.answers(options))


class Triton(Server):
    """Loaded by wrk over HTTP, one connection for each request in flight."""

    model = "spectrum"

    def __init__(self, options, folder):
        self.folder = folder
        self.port = free_port()
        root = options.tritonserver
        super().__init__([root / "bin/tritonserver", "--model-repository", HERE / "triton_models",
                          "--model-control-mode", "explicit", "--load-model", self.model,
                          "--backend-directory", root / "backends", "--http-port", str(self.port),
                          "--http-thread-count", "8", "--allow-grpc", "false", "--allow-metrics", "false"],
                         PEER_PYTHONPATH=os.pathsep.join(filter(None, sys.path)), PYTHONDONTWRITEBYTECODE="1")
        self.wait_for(self.ready)

    def ready(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v2/models/{self.model}/ready", timeout=5):
                return True
        except OSError:
            return False

    def load(self, options, size, clients, in_flight):
        head = json.dumps({"inputs": [{"name": "x", "shape": [1, size // 4], "datatype": "FP32",
                                       "parameters": {"binary_data_size": size}}],
                           "outputs": [{"name": "y", "parameters": {"binary_data": True}}]}).encode()
        body = self.folder / f"{self.model}-{size}"
        body.write_bytes(head + struct.pack(f"<{size // 4}f", *(at % 97 for at in range(size // 4))))
        connections = clients * in_flight
        done = subprocess.run(["wrk", "-t", str(min(connections, 8)), "-c", str(connections), "-d",
                               f"{options.seconds}s", "-s", HERE / "wrk.lua",
                               f"http://127.0.0.1:{self.port}/v2/models/{self.model}/infer"],
                              env={**os.environ, "PEER_BODY": str(body), "PEER_HEADER": str(len(head))},
                              capture_output=True, text=True, check=True)
        measured = json.loads(done.stdout.splitlines()[-1])
        if measured["errors"]:
            sys.exit(f"Triton: {measured['errors']} requests failed")
        return measured["requests_per_s"], measured["p50"], measured["p99"]


class TritonBestCase(Triton):
    """A backend that only copies on the host."""

    model = "copy"


SERVERS = {"penstock": Penstock, "penstock-shared": PenstockShared, "pyzmq-torch": PyzmqTorch, "triton": Triton,
           "triton-copy": TritonBestCase}


def show(names, results):
    print("| load | " + " | ".join(names) + " |")
    print("|---" * (len(names) + 1) + "|")
    for load, *_ in LOADS:
        cells = []
        for name in names:
            rates, middles, tails = zip(*results[load, name])
            cells.append(f"{statistics.median(rates):,.0f}/s, p50 {statistics.median(middles):,.0f} µs, "
                         f"p99 {statistics.median(tails):,.0f} µs")
        print(f"| {load} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--tritonserver", type=pathlib.Path, help="the folder of the wheel; without it no Triton")
    parser.add_argument("--backend", default="cuda", choices=("cuda", "host"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--only", help="servers, comma-separated: " + ", ".join(SERVERS))
    options = parser.parse_args()
    names = options.only.split(",") if options.only else [
        name for name in SERVERS if options.tritonserver or not name.startswith("triton")]
    results = {(load, name): [] for load, *_ in LOADS for name in names}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        servers = {}
        for name in names:
            own = pathlib.Path(folder) / name
            own.mkdir()
            servers[name] = SERVERS[name](options, own)
            stack.callback(servers[name].stop)
        for turn in range(options.rounds):
            for load, size, clients, in_flight in LOADS:
                for name in names[turn % len(names):] + names[:turn % len(names)]:
                    results[load, name].append(servers[name].load(options, size, clients, in_flight))
                    print(f"round {turn + 1}, {load}, {name}: {results[load, name][-1][0]:,.0f}/s", file=sys.stderr)
    show(names, results)


if __name__ == "__main__":
    main()
