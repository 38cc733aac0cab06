"""What tensors_test has another Python do, which has torch: "host" or "cuda", URL of a daemon, folder of pyzmq."""

import asyncio
import gc
import signal
import subprocess
import sys
import time
import traceback

import numpy as np
import torch

sys.path.append(sys.argv[3])  # behind its own numpy

from penstock import AsyncClient, Client, Rejected  # noqa: E402

DEVICE, URL = sys.argv[1:3]
N = 1 << 14


def passed(what):
    print("passed:", what, flush=True)


def on_the_host(client):
    x = torch.randn(4, N)
    result = client.submit("scale", x).result()
    y = torch.from_dlpack(result)
    assert torch.equal(y, 2 * x + 1)
    assert y.data_ptr() == result["y"].__array_interface__["data"][0]
    del result
    gc.collect()
    assert torch.equal(y, 2 * x + 1)
    wide = torch.randn(N, 3).T  # not contiguous
    assert torch.equal(torch.from_dlpack(client.submit("scale", wide).result()), 2 * wide + 1)
    half = torch.randn(2, N).to(torch.bfloat16)
    doubled = torch.from_dlpack(client.submit("brain", half).result())
    assert doubled.dtype == torch.bfloat16 and torch.equal(doubled, 2 * half)
    try:
        client.submit("scale", torch.zeros(N, requires_grad=True))
        raise AssertionError("a tensor that needs a gradient was taken")
    except TypeError as error:
        assert "can't be taken" in str(error), error
    # torch exports the memory, where the numbers have the other sign.
    negative = torch.complex(torch.zeros(N), torch.ones(N)).conj().imag
    try:
        client.submit("scale", negative)
        raise AssertionError("a tensor with its negative bit set was taken")
    except TypeError as error:
        assert "resolve_neg()" in str(error), error
    assert torch.equal(torch.from_dlpack(client.submit("scale", negative.resolve_neg()).result()), 2 * negative + 1)
    many = [torch.from_dlpack(client.submit("scale", x).result()) for _ in range(50)]
    assert all(torch.equal(each, 2 * x + 1) for each in many)
    client.close()
    assert torch.equal(many[0], 2 * x + 1)  # it outlives the client
    passed("torch tensors on the host")


class Copies:
    """That nothing crosses between the host's memory and the GPU's, by the daemon's own count."""

    def __init__(self, client, nbytes=None):
        self.client, self.nbytes = client, nbytes

    def __enter__(self):
        self.before = self.client.status()["copied_bytes"]

    def __exit__(self, *error):
        after = self.client.status()["copied_bytes"]
        assert (after["in"], after["out"]) == (self.before["in"], self.before["out"]), (self.before, after)
        within = after["within_device"] - self.before["within_device"]
        assert self.nbytes is None or within == self.nbytes, (within, self.nbytes)


def in_place(client):
    frames = client.frames("scale", 4, device="cuda")
    x = torch.from_dlpack(frames)
    assert x.is_cuda and x.data_ptr() == frames.address and x.shape == (4, N)
    x.copy_(torch.randn(4, N, device="cuda"))
    with Copies(client, 2 * 4 * N * 4):
        result = client.submit("scale", x).result()
        y = torch.from_dlpack(result)
    assert y.is_cuda and y.data_ptr() == result["y"].address
    assert torch.equal(y, 2 * x + 1)
    assert np.array_equal(result["y"].numpy(), y.cpu().numpy())
    assert torch.equal(torch.as_tensor(result["y"], device="cuda"), y)  # __cuda_array_interface__
    passed("a torch tensor in the daemon's memory goes in and comes out on the GPU")


def from_elsewhere(client):
    x = torch.randn(3, N, device="cuda")
    with Copies(client):
        y = torch.from_dlpack(client.submit("scale", x).result())
    assert torch.equal(y, 2 * x + 1)
    half = torch.randn(2, N, device="cuda").to(torch.bfloat16)
    doubled = torch.from_dlpack(client.submit("brain", half).result())
    assert doubled.dtype == torch.bfloat16 and torch.equal(doubled, 2 * half)
    block = torch.randn(1000, device="cuda")
    several = client.submit("two", block).result()
    assert torch.allclose(torch.from_dlpack(several.tensor("y")), 3 * block)
    assert several["m"].device == "cuda:0"
    try:
        client.submit("scale", torch.randn(N, 3, device="cuda").T)
        raise AssertionError("a tensor that is not contiguous was taken")
    except ValueError as error:
        assert "contiguous()" in str(error), error
    passed("torch's own CUDA tensors")


def streams_are_waited_for(client):
    """The work that makes x is still under way when it is submitted, and what is freed is still read."""
    side = torch.cuda.Stream()
    frames = torch.from_dlpack(client.frames("scale", device="cuda"))
    kept = []
    for each in range(20):
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)  # about 10 ms
            frames.fill_(each)
            future = client.submit("scale", frames)
            y = torch.from_dlpack(future.result())
            torch.cuda._sleep(20_000_000)
            kept.append(y.clone())
            del y, future
    torch.cuda.synchronize()
    for each, y in enumerate(kept):
        assert torch.all(y == 2 * each + 1), (each, y)
    passed("the streams of torch")


def a_thousand_requests(client, count=1000):
    memory = client.status()["shared_memory"]["device_bytes"]
    x = torch.randn(count, N, device="cuda")
    begin = time.monotonic()
    with Copies(client):
        futures = []
        for each in range(count):
            futures.append(client.submit("scale", x[each]))
            if len(futures) == 32:
                check(futures, x, each)
        check(futures, x, count - 1)
    print(f"{count} requests of {N * 4} bytes in {time.monotonic() - begin:.2f} s, "
          f"device memory {memory} -> {client.status()['shared_memory']['device_bytes']}")
    passed(f"{count} requests")


def check(futures, x, last):
    first = last - len(futures) + 1
    for at, future in enumerate(futures):
        assert torch.equal(torch.from_dlpack(future.result()), 2 * x[first + at] + 1), first + at
    futures.clear()


def tasks(client):
    async def run():
        async with AsyncClient(URL) as c:
            x = torch.randn(100, N, device="cuda")
            results = await asyncio.gather(*(c.submit("scale", each) for each in x))
            for each, result in zip(x, results):
                assert torch.equal(torch.from_dlpack(result), 2 * each + 1)
            async with c.session("fir") as session:
                block = torch.randn(1000, device="cuda")
                outputs = await asyncio.gather(*(session.submit(block) for _ in range(3)))
                whole = torch.cat([torch.from_dlpack(each) for each in outputs]).cpu().numpy()
                expected = np.convolve(np.tile(block.cpu().numpy(), 3), [1, 2, 3])[:3000]
                assert np.allclose(whole, expected, atol=1e-4)
    asyncio.run(run())
    passed("asyncio")


def with_cupy(client):
    try:
        import cupy
    except ImportError as missing:
        print("skipped: CuPy:", missing)
        return
    frames = client.frames("scale", 2, device="cuda")
    x = cupy.asarray(frames)
    assert x.data.ptr == frames.address
    x[...] = cupy.arange(2 * N, dtype=cupy.float32).reshape(2, N)
    y = cupy.from_dlpack(client.submit("scale", x).result())
    assert bool((y == 2 * x + 1).all())
    passed("CuPy")


def others_stay_apart(client):
    mine = torch.from_dlpack(client.frames("scale", device="cuda"))
    mine.fill_(7)
    with Client(URL) as other:
        theirs = other.frames("scale", 16, device="cuda")
        assert not theirs.numpy().any(), "what another client had is seen"
        other._connection.device.arena.number = client._connection.device.arena.number
        try:
            other.submit("scale", theirs).result()
            raise AssertionError("another client's memory was taken")
        except Rejected:
            pass
    y = torch.from_dlpack(client.submit("scale", mine).result())
    assert torch.all(y == 15)
    passed("two clients do not see each other's memory")


def killed(client):
    client.frames("scale", device="cuda").numpy()
    lent = client.status()["shared_memory"]["device_bytes"]
    torch.cuda.synchronize()
    free, _ = torch.cuda.mem_get_info()
    code = ("import sys, torch; sys.path.append(sys.argv[2])\nfrom penstock import Client\n"
            "c = Client(sys.argv[1], shared_at_first=8 << 20)\n"
            "x = torch.from_dlpack(c.frames('scale', 8, device='cuda'))\n"
            "print('ready', flush=True)\nwhile True: [f.result() for f in [c.submit('scale', x) for _ in range(16)]]")
    with subprocess.Popen([sys.executable, "-c", code, URL, sys.argv[3]], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.2)
        assert client.status()["shared_memory"]["device_bytes"] >= 8 << 20
        process.send_signal(signal.SIGKILL)
    end = time.monotonic() + 30
    while client.status()["shared_memory"]["device_bytes"] > lent or torch.cuda.mem_get_info()[0] < free - (1 << 20):
        assert time.monotonic() < end, (client.status()["shared_memory"], lent, torch.cuda.mem_get_info(), free)
        time.sleep(0.05)
    passed("memory comes back from a client that was killed")


def kept_beyond_the_client(_):
    client = Client(URL)
    x = torch.from_dlpack(client.frames("scale", device="cuda"))
    x.fill_(3)
    y = torch.from_dlpack(client.submit("scale", x).result())
    client.close()
    assert torch.all(y == 7) and torch.all(x == 3)
    passed("tensors outlive their client")
    return y  # and the interpreter


CHECKS = {"host": (on_the_host,),
          "cuda": (in_place, from_elsewhere, streams_are_waited_for, a_thousand_requests, with_cupy, others_stay_apart,
                   killed, tasks, kept_beyond_the_client)}
failed, until_the_end = [], []
for check_one in CHECKS[DEVICE]:
    with Client(URL) as client:
        try:
            until_the_end.append(check_one(client))
        except Exception:
            print("FAILED:", check_one.__name__, traceback.format_exc(), sep="\n", flush=True)
            failed.append(check_one.__name__)
print("failed:" if failed else "done:", *failed, "torch", torch.__version__, "numpy", np.__version__)
sys.exit(1 if failed else 0)
