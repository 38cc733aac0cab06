"""How fast torch tensors go through the daemon's GPU: in device memory that it shares, beside shared memory of the host.

    PENSTOCK_BIN=build/release/bin PYTHONPATH=client/python/src:tests/system python tests/bench/tensors.py

Needs torch, pyzmq and a GPU. Prints medians of interleaved repeats.
"""

import argparse
import collections
import statistics
import time

import torch

from daemon_process import VERSION, Daemon, pipeline
from penstock import Client

MODES = ("device", "device, torch's own", "host", "host, from and to the GPU")


def prepared(client, mode, floats):
    """A function that gives the next x, and one for its result."""
    if mode == "device":
        x = torch.from_dlpack(client.frames(f"p{floats}", device="cuda"))
        return lambda: x, torch.from_dlpack
    if mode == "host":
        x = client.frames(f"p{floats}")
        x[:] = 1
        return lambda: x, lambda result: result.array
    x = torch.ones(floats, device="cuda")
    if mode == "host, from and to the GPU":
        return x.cpu, lambda result: torch.from_dlpack(result).cuda()
    return lambda: x, torch.from_dlpack


def run(client, mode, floats, requests, window):
    """Requests a second."""
    give, take = prepared(client, mode, floats)
    for each in range(2):  # the first one is not timed
        sent = collections.deque()
        begin = time.perf_counter()
        for _ in range(requests if each else window):
            if len(sent) == window:
                take(sent.popleft().result())
            sent.append(client.submit(f"p{floats}", give()))
        while sent:
            take(sent.popleft().result())
        torch.cuda.synchronize()
    return requests / (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--window", type=int, nargs="*", default=[1, 16])
    parser.add_argument("--kib", type=int, nargs="*", default=[64, 1024, 8192])
    given = parser.parse_args()
    sizes = [each * 256 for each in given.kib]
    text = (VERSION + '[shared_memory]\nmax_bytes = "2 GiB"\nmax_device_bytes = "2 GiB"\nmax_client_bytes = "1 GiB"\n'
            + "".join(pipeline(f"p{each}", "f32", [each], [("y", "affine", "a = 2\nb = 1\n")], ["y"], 'batch = { max_bytes = "64 MiB" }\n') for each in sizes))
    daemon = Daemon("cuda", "poll", text)
    try:
        with Client(daemon.url, transport="shm", shared_bytes=1 << 30, shared_at_first=1 << 29) as client:
            client.frames(f"p{sizes[0]}", device="cuda")
            print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, medians of {given.repeats}")
            for floats in sizes:
                for window in given.window:
                    found = collections.defaultdict(list)
                    for _ in range(given.repeats):
                        for mode in MODES:
                            found[mode].append(run(client, mode, floats, given.requests, window))
                    host = statistics.median(found["host"])
                    for mode in MODES:
                        middle = statistics.median(found[mode])
                        print(f"{floats // 256} KiB, {window} in flight, {mode}: {middle:.0f} requests/s "
                              f"({min(found[mode]):.0f} to {max(found[mode]):.0f}), {middle / host:.2f} of host, "
                              f"{middle * floats * 4 / 1e9:.2f} GB/s each way", flush=True)
    finally:
        print("daemon ended with", daemon.stop()[0])


if __name__ == "__main__":
    main()
