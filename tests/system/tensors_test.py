"""Arrays of other libraries in requests and results (DLPack), and memory of the daemon's GPU that clients share. The GPU
is a runtime and a driver without one (tests/fake_cuda), whose device memory is a file that both processes map."""

import asyncio
import ctypes
import gc
import importlib.util
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import zmq

from daemon_process import COMPLETIONS, VERSION, Daemon, backends, pipeline, wait_until
from fake_cuda import FAKE_CUDA, FakeCuda, Kind
from penstock import AsyncClient, Client, Expired, NoCredit, Rejected, Tensor
from penstock.tensor import CUDA, is_tensor

N = 1 << 14
PAGE = 2 << 20
FAKE_DRIVER = FAKE_CUDA.parent / "fake_driver" / "libcuda.so.1"
CONFIGURATION = (
    VERSION + '[device]\nslots = 4\n[shared_memory]\nmax_device_bytes = "24 MiB"\nmax_client_bytes = "16 MiB"\n'
    + pipeline("scale", "f32", [N], [("y", "affine", "a = 2\nb = 1\n")], ["y"])
    + pipeline("two", "f32", ["max 4096"], [("y", "affine", "a = 3\n"), ("m", "moments", 'from = "y"\n')], ["y", "m"])
    + pipeline("mixed", "f32", [N], [("y", "affine", "a = 2\nb = 1\n")], ["y"], 'batch = { max_delay = "50ms" }\n')
    + pipeline("brain", "bf16", [N], [("y", "affine", "a = 2\n")], ["y"])
    + pipeline("fir", "f32", [f"max {N}"], [("y", "fir", "taps = [1, 2, 3]\n")], ["y"]))
DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs/tensors.md"
URL = "tcp://127.0.0.1:7600"  # as the page has it
TORCH = os.environ.get("PENSTOCK_TORCH_PYTHON")
JAX = os.environ.get("PENSTOCK_JAX_PYTHON") or (sys.executable if importlib.util.find_spec("jax") else None)
# Of what JAX makes of results: whether they are right, and whether they are the same memory.
JAX_PROGRAM = """
import jax, penstock
for transport in ("shm", "zmq"):
    with penstock.Client({url!r}, transport=transport) as client:
        if transport == "shm":
            client.frames("two", 4)  # waits for the memory
        x = jax.random.normal(jax.random.key(1), (4, 4096))
        result = client.submit("two", x).result()
        for y in (jax.numpy.from_dlpack(result.tensor("y")), jax.dlpack.from_dlpack(result.tensor("y"))):
            print(jax.numpy.array_equal(y, 3 * x), y.unsafe_buffer_pointer() == result["y"].ctypes.data)
with penstock.Client({url!r}) as client:
    x = jax.numpy.ones(16384, jax.numpy.bfloat16)
    y = jax.numpy.from_dlpack(client.submit("brain", x).result())
    print(y.dtype, jax.numpy.array_equal(y, 2 * x))
    try:
        client.submit("brain", x.astype(jax.numpy.float32))
    except TypeError as error:
        print(error)
"""


def noise(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


class Foreign:
    """An array of another library: it has DLPack, and nothing of numpy's."""

    def __init__(self, tensor, device=None):
        self.tensor, self.device = tensor, device or tensor.__dlpack_device__()
        self.streams = []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None):
        self.streams.append(stream)
        return self.tensor.__dlpack__()


def run_torch(test, device, daemon):
    """tensors_torch.py, with the Python that has torch."""
    script = pathlib.Path(__file__).with_name("tensors_torch.py")
    done = subprocess.run([TORCH, script, device, daemon.url, str(pathlib.Path(zmq.__file__).parents[1])],
                          capture_output=True, text=True, timeout=280)
    print(done.stdout, flush=True)
    test.assertEqual(done.returncode, 0, done.stdout + done.stderr)


def run_program(python, program):
    """It imports penstock as this one does, and else what its own Python has."""
    modules = str(pathlib.Path(zmq.__file__).parents[1])
    library = "jax" if python == JAX else "torch"
    return subprocess.run([python, "-c", f"import sys\nimport {library}\nsys.path.append({modules!r})\n{program}"],
                          capture_output=True, text=True, timeout=120,
                          env={**os.environ, "JAX_PLATFORMS": "cpu"})  # JAX here is that of the host backend


def run_example(test, heading, backend, python=TORCH):
    """The program of that part of docs/tensors.md, which prints what the page says."""
    page = DOCUMENT.read_text()
    part = page.split(f"## {heading}\n")[1].split("\n## ")[0]
    program = re.search(r"```python\n(.*?)```", part, re.DOTALL).group(1)
    expected = re.search(r"```text\n(.*?)```", part, re.DOTALL).group(1)
    daemon = Daemon(backend, "callback", re.search(r"```toml\n(.*?)```", page, re.DOTALL).group(1))
    test.addCleanup(daemon.stop)
    done = run_program(python, program.replace(URL, daemon.url))
    test.assertEqual((done.stdout, done.returncode), (expected, 0), done.stderr)


class HostTensors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("host", "callback", CONFIGURATION)
        cls.addClassCleanup(cls.daemon.stop)

    def setUp(self):
        self.client = Client(self.daemon.url)
        self.addCleanup(self.client.close)

    def test_what_another_library_made_gives_the_same_as_a_numpy_array(self):
        x = noise(3, N)
        for given in (x, Foreign(Tensor.of_array(x)), Foreign(Tensor.of_array(noise(N, 3).T))):
            expected = given if given is x else np.asarray(Tensor.of_other(given))
            result = self.client.submit("scale", given).result()
            np.testing.assert_array_equal(result["y"], 2 * expected + 1)

    def test_results_are_taken_without_a_copy_and_keep_their_memory(self):
        x = noise(N)
        result = self.client.submit("scale", x).result()
        address = result["y"].__array_interface__["data"][0]
        taken = Tensor.of_other(result)
        self.assertEqual((taken.address, taken.device, taken.shape), (address, "cpu", (N,)))
        del result
        gc.collect()
        np.testing.assert_array_equal(np.asarray(taken), 2 * x + 1)
        np.testing.assert_array_equal(np.from_dlpack(self.client.submit("scale", x).result()), 2 * x + 1)

    def test_several_outputs_are_taken_by_name(self):
        x = noise(512)
        result = self.client.submit("two", x).result()
        np.testing.assert_array_equal(np.asarray(Tensor.of_other(result.tensor("y"))), 3 * x)
        with self.assertRaisesRegex(ValueError, "2 outputs: y, m"):
            result.__dlpack__()

    def test_bf16_goes_in_and_comes_out(self):
        bits = (noise(2, N).view(np.uint32) >> 16).astype(np.uint16)
        result = self.client.submit("brain", Foreign(Tensor.of_array(bits, is_bfloat16=True))).result()
        taken = Tensor.of_other(result)
        self.assertTrue(taken.is_bfloat16)
        doubled = np.asarray(taken).view(np.uint16).astype(np.uint32) << 16
        np.testing.assert_array_equal(doubled.view(np.float32), 2 * (bits.astype(np.uint32) << 16).view(np.float32))
        with self.assertRaisesRegex(TypeError, "takes bf16"):
            self.client.submit("brain", Foreign(Tensor.of_array(bits.view(np.float16))))

    def test_nothing_is_kept_of_what_went_in_and_came_out(self):
        x = noise(4, N)
        given = Foreign(Tensor.of_array(x))
        result = self.client.submit("scale", given).result()
        taken = [Tensor.of_other(result) for _ in range(10)]
        unused = result.__dlpack__()
        owner = result["y"]
        del result, taken, unused, given
        gc.collect()
        wait_until(lambda: sys.getrefcount(x) == 2, "the client lets go of the input")
        self.assertEqual(sys.getrefcount(owner), 2)

    def test_what_can_not_be_taken_is_refused_with_a_reason(self):
        class Broken(Foreign):
            def __dlpack__(self, *, stream=None):
                raise BufferError("it needs a gradient: use detach()")
        with self.assertRaisesRegex(TypeError, "Broken can't be taken: it needs a gradient"):
            self.client.submit("scale", Broken(Tensor.of_array(noise(N))))
        with self.assertRaisesRegex(TypeError, r"takes f32\[16384\], not Foreign \(of float64 \[16384\]\)"):
            self.client.submit("scale", Foreign(Tensor.of_array(noise(N).astype(float))))
        on_gpu = Foreign(Tensor(None, 4096, (N,), 2, 32, device_type=CUDA))
        with self.assertRaisesRegex(TypeError, "x lies on cuda:0, .* runs on the host.* x.cpu\\(\\)"):
            self.client.submit("scale", on_gpu)
        with self.assertRaisesRegex(ValueError, "no device memory for this client: .* runs on the host"):
            self.client.frames("scale", device="cuda")
        for name in ("gpu", "cuda:", "cuda:x"):
            with self.assertRaisesRegex(ValueError, f'device is "cpu", "cuda" or "cuda:N", not \'{name}\''):
                self.client.frames("scale", device=name)

    def test_advice_is_in_the_words_of_the_library(self):
        short = Tensor.of_array(noise(N).astype(np.float16))
        on_gpu = Tensor(None, 4096, (N,), 2, 32, device_type=CUDA)
        for module, converted, to_host in (("torch", "x.to(torch.float32)", "x.cpu()"),
                                           ("cupy", "x.astype(cupy.float32)", "x.get()"),
                                           ("jaxlib._jax", "x.astype(jax.numpy.float32)", "jax.device_get(x)")):
            array = type("Array", (Foreign,), {"__module__": module})
            for given, advice in ((array(short), f"write {converted}"), (array(on_gpu), f"{to_host} takes it through")):
                with self.subTest(advice), self.assertRaisesRegex(TypeError, re.escape(advice)):
                    self.client.submit("scale", given)

    def test_asyncio_takes_them_and_a_cancelled_task_cancels_its_request(self):
        x = noise(N)

        async def run():
            async with AsyncClient(self.daemon.url) as c:
                results = await asyncio.gather(*(c.submit("scale", Foreign(Tensor.of_array(x + each)))
                                                 for each in range(20)))
                for each, result in enumerate(results):
                    np.testing.assert_array_equal(np.asarray(result), 2 * (x + np.float32(each)) + 1)
                task = asyncio.ensure_future(c.submit("scale", x))
                await asyncio.sleep(0)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                await c.ping()
        asyncio.run(run())
        self.assertTrue(self.daemon.counters()["status"]["balanced"])

    @unittest.skipUnless(TORCH, "PENSTOCK_TORCH_PYTHON names no Python with torch")
    def test_torch_tensors_go_in_and_come_out(self):
        run_torch(self, "host", self.daemon)

    @unittest.skipUnless(TORCH, "PENSTOCK_TORCH_PYTHON names no Python with torch")
    def test_the_examples_print_what_the_page_says(self):
        for heading in ("In the host's memory", "asyncio"):
            with self.subTest(heading=heading):
                run_example(self, heading, "host")


    @unittest.skipUnless(JAX, "PENSTOCK_JAX_PYTHON names no Python with JAX")
    def test_jax_arrays_go_in_and_come_out(self):
        done = run_program(JAX, JAX_PROGRAM.format(url=self.daemon.url))
        said = done.stdout.splitlines()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(said[:2], ["True True"] * 2)  # of shared memory: it is the same
        self.assertEqual([each.split()[0] for each in said[2:4]], ["True"] * 2)  # JAX copies where 64 bytes do not fit
        self.assertEqual(said[4], "bfloat16 True")
        self.assertIn("write x.astype(jax.numpy.bfloat16)", said[5])

    @unittest.skipUnless(JAX, "PENSTOCK_JAX_PYTHON names no Python with JAX")
    def test_the_example_with_jax_prints_what_the_page_says(self):
        run_example(self, "JAX", "host", JAX)


@unittest.skipUnless(TORCH, "PENSTOCK_TORCH_PYTHON names no Python with torch")
@unittest.skipUnless("cuda" in backends(), "this is no test of a GPU")
class TorchOnTheGpu(unittest.TestCase):
    def test_torch_and_cupy_share_device_memory_with_the_daemon(self):
        for completion in COMPLETIONS:
            daemon = Daemon("cuda", completion, CONFIGURATION)
            self.addCleanup(daemon.stop)
            run_torch(self, "cuda", daemon)
            self.assertTrue(daemon.counters()["status"]["balanced"])

    def test_the_example_prints_what_the_page_says(self):
        run_example(self, "On the daemon's GPU", "cuda")


@unittest.skipUnless(FAKE_CUDA.exists() and FAKE_DRIVER.exists(), "CUDA's headers are missing, or sanitizers are on")
class DeviceTensors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.driver = ctypes.CDLL(str(FAKE_DRIVER))  # it is then this process's libcuda.so.1

    def setUp(self):
        self.cuda = FakeCuda()
        self.daemon = Daemon("cuda", "callback", CONFIGURATION, environment={
            **self.cuda.environment, "LD_LIBRARY_PATH": str(FAKE_DRIVER.parent)})
        self.addCleanup(self.daemon.stop)

    def status(self):
        return self.daemon.counters()["status"]

    def lent(self):
        return self.status()["shared_memory"]["device_bytes"]

    def connect(self, **options):
        client = Client(self.daemon.url, **options)
        self.addCleanup(client.close)
        return client

    def test_frames_on_the_device_are_read_there_and_so_are_their_results(self):
        client, x = self.connect(), noise(4, N)
        frames = client.frames("scale", 4, device="cuda")
        self.assertEqual((frames.device, frames.shape, frames.dtype), ("cuda:0", (4, N), np.float32))
        self.assertEqual(client.empty(4, np.float32, device="cuda:0").device, "cuda:0")
        with self.assertRaisesRegex(ValueError, "the daemon's GPU is cuda:0 in this process, not cuda:1"):
            client.frames("scale", device="cuda:1")
        frames.write(x)
        before = self.status()["copied_bytes"]
        result = client.submit("scale", frames).result()
        output = result["y"]
        self.assertEqual((output.device, output.shape), ("cuda:0", (4, N)))
        np.testing.assert_array_equal(output.numpy(), 2 * x + 1)
        after = self.status()["copied_bytes"]
        self.assertEqual((after["in"], after["out"]), (before["in"], before["out"]))
        self.assertEqual(after["within_device"] - before["within_device"], 2 * x.nbytes)
        self.assertEqual(output.__cuda_array_interface__["data"], (output.address, False))
        self.assertFalse(hasattr(Tensor.of_array(x), "__cuda_array_interface__"))
        with self.assertRaisesRegex(TypeError, "lies on cuda:0: numpy\\(\\) copies it"):
            np.asarray(result)

    def test_one_batch_has_frames_from_each_kind_of_memory(self):
        x, futures = noise(N), []
        clients = [self.connect(transport=each) for each in ("shm", "zmq", "shm", "auto")]
        on_device = [each.frames("mixed", device="cuda") for each in clients[2:]]
        before = self.status()["copied_bytes"]["within_device"]
        for each in on_device:
            each.write(x)
        for _ in range(10):
            for each, given in zip(clients, (x, x, *on_device)):
                futures.append(each.submit("mixed", given))
        for each in futures:
            y = each.result()["y"]
            np.testing.assert_array_equal(y.numpy() if is_tensor(y) else y, 2 * x + 1)
        self.assertEqual(self.status()["copied_bytes"]["within_device"] - before, 2 * 20 * x.nbytes)
        with self.assertRaisesRegex(ValueError, "everything through the socket"):
            clients[1].frames("mixed", device="cuda")

    def test_a_result_is_the_input_of_the_next_request(self):
        client, x = self.connect(), noise(N)
        frames = client.frames("scale", device="cuda")
        frames.write(x)
        before = self.status()["copied_bytes"]
        again = client.submit("scale", client.submit("scale", frames).result()).result()
        np.testing.assert_array_equal(again["y"].numpy(), 2 * (2 * x + 1) + 1)
        self.assertEqual(self.status()["copied_bytes"]["in"], before["in"])

    def test_what_another_library_has_there_is_read_in_place_and_else_copied_on_the_device(self):
        client, x = self.connect(), noise(2, N)
        frames = client.frames("scale", 2, device="cuda")
        frames.write(x)
        inside = Foreign(frames)
        np.testing.assert_array_equal(client.submit("scale", inside).result()["y"].numpy(), 2 * x + 1)
        self.assertNotIn(None, inside.streams)  # its library's stream is waited for
        elsewhere = Foreign(Tensor(x, x.__array_interface__["data"][0], x.shape, 2, 32, device_type=CUDA))
        np.testing.assert_array_equal(client.submit("scale", elsewhere).result()["y"].numpy(), 2 * x + 1)
        other = Foreign(Tensor(x, x.__array_interface__["data"][0], x.shape, 2, 32, device_type=CUDA, device_id=1))
        with self.assertRaisesRegex(TypeError, "x lies on cuda:1, .* its GPU is cuda:0"):
            client.submit("scale", other)

    def test_sessions_keep_their_state_whatever_memory_their_frames_come_from(self):
        x = noise(3 * 1000)
        expected = np.convolve(x, [1, 2, 3])[:3000]
        got = []
        with self.connect().session("fir") as session:
            for each, part in enumerate(np.split(x, 3)):
                if each == 1:
                    frames = session._client.frames("fir", length=1000, device="cuda")
                    frames.write(part)
                    part = frames
                output = session.submit(part).result()["y"]
                got.append(output.numpy() if is_tensor(output) else output)
        np.testing.assert_allclose(np.concatenate(got), expected, rtol=1e-5, atol=1e-5)

    def test_bf16_and_variable_lengths(self):
        client = self.connect()
        frames = client.frames("brain", device="cuda")
        frames.write(np.full(N, 0x3F80, np.uint16).view(frames.dtype))
        output = client.submit("brain", frames).result().tensor()
        self.assertTrue(output.is_bfloat16)
        self.assertEqual(set(output.numpy().view(np.uint16).tolist()), {0x4000})
        short = client.frames("two", length=100, device="cuda")
        short.write(noise(100))
        result = client.submit("two", short).result()
        np.testing.assert_array_equal(result["y"].numpy(), 3 * noise(100))
        self.assertEqual(result["m"].shape, (5,))

    def test_a_thousand_requests_need_no_more_memory_than_ten(self):
        client = self.connect()
        frames = client.frames("two", 4, length=1024, device="cuda")
        frames.write(noise(4, 1024))
        for _ in range(100):
            futures = [client.submit("two", frames, frames=4) for _ in range(10)]
            for each in futures:
                np.testing.assert_array_equal(each.result()["y"].numpy(), 3 * noise(4, 1024))
        self.assertLessEqual(self.lent(), 2 * PAGE + (4 << 20))
        self.assertTrue(self.status()["balanced"])

    def test_requests_wait_for_room_that_kept_results_take(self):
        client = self.connect(shared_bytes=2 * PAGE, shared_at_first=2 * PAGE)
        frames = client.frames("scale", 8, device="cuda")
        kept = []
        with self.assertRaisesRegex(NoCredit, "device memory has no room"):
            while True:
                kept.append(client.submit("scale", frames, block=False).result())
        with self.assertRaisesRegex(Expired, "what is kept of results takes its room"):
            client.submit("scale", frames, timeout=0.01)
        with ThreadPoolExecutor(1) as aside:
            waiting = aside.submit(client.submit, "scale", frames)
            kept.pop()
            waiting.result(60).result(60)

    def test_nothing_is_lent_any_more_when_a_client_has_left_or_was_killed(self):
        client = self.connect()
        at_first = self.status()["device"]
        frames = client.frames("scale", device="cuda")
        self.assertGreater(self.lent(), 0)
        client.close()
        wait_until(lambda: self.lent() == 0, "the daemon takes its memory back")
        frames.write(noise(N))  # the mapping is the client's
        code = (f"import ctypes, sys; ctypes.CDLL({str(FAKE_DRIVER)!r})\nfrom penstock import Client\n"
                f"c = Client({self.daemon.url!r}); f = c.frames('scale', 8, device='cuda')\n"
                "all_ = [c.submit('scale', f) for _ in range(8)]\nprint('ready', flush=True); sys.stdin.read()")
        with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as killed:
            self.assertEqual(killed.stdout.readline(), b"ready\n")
            self.assertGreater(self.lent(), 0)
            killed.send_signal(signal.SIGKILL)
        wait_until(lambda: self.lent() == 0, "the daemon takes its memory back")
        self.assertEqual(self.status()["device"], at_first)

    def test_limits_hold_and_a_refusal_says_which(self):
        client = self.connect()
        with self.assertRaisesRegex(Rejected, "bytes of device memory are needed; .* allow 16777216"):
            client.empty(17 << 20, np.uint8, device="cuda")
        clients = [self.connect(shared_at_first=12 << 20) for _ in range(2)]
        kept = [each.empty(1, np.uint8, device="cuda") for each in clients]
        self.assertEqual((len(kept), self.lent()), (2, 24 << 20))
        with self.assertRaisesRegex(Rejected, "no memory to share .shared_memory.max_device_bytes"):
            client.empty(1, np.uint8, device="cuda")

    def test_one_client_can_not_name_the_memory_of_another(self):
        one, other = self.connect(), self.connect()
        frames = one.frames("scale", device="cuda")
        frames.write(noise(N))
        mine = other.frames("scale", device="cuda")
        self.assertFalse(mine.numpy().any())  # it is cleared
        arena, theirs = other._connection.device.arena, one._connection.device.arena
        arena.number = theirs.number
        with self.assertRaises(Rejected):
            other.submit("scale", mine).result()
        np.testing.assert_array_equal(one.submit("scale", frames).result()["y"].numpy(), 2 * noise(N) + 1)

    def test_another_gpu_than_the_daemons_is_refused(self):
        code = (f"import ctypes; ctypes.CDLL({str(FAKE_DRIVER)!r})\nfrom penstock import Client\n"
                f"Client({self.daemon.url!r}).frames('scale', device='cuda')")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                              env={**os.environ, "FAKE_CUDA_UUID": "1"})
        self.assertIn("is none of the 1 that this process sees: look at CUDA_VISIBLE_DEVICES", done.stderr)

    def test_a_restart_ends_requests_in_device_memory_with_a_sentence(self):
        client = self.connect()
        frames = client.frames("scale", device="cuda")
        frames.write(noise(N))
        client.submit("scale", frames).result()
        self.cuda.arm(1, Kind.NEVER, "cudaStreamAddCallback")
        future = client.submit("scale", frames)
        wait_until(lambda: self.cuda.met, "the daemon has it")
        self.daemon.end(signal.SIGKILL)
        self.daemon.start()
        with self.assertRaisesRegex(Rejected, "not shared any more: submit it again"):
            future.result(60)
        np.testing.assert_array_equal(client.submit("scale", frames).result()["y"].numpy(), 2 * noise(N) + 1)

    def test_a_copy_that_the_device_refuses_fails_its_request_alone(self):
        client = self.connect()
        frames = client.frames("scale", device="cuda")
        frames.write(noise(N))
        client.submit("scale", frames).result()
        self.cuda.arm(1, Kind.REFUSED, "cudaMemcpyAsync")
        with self.assertRaisesRegex(Exception, "FAILED"):
            client.submit("scale", frames).result()
        np.testing.assert_array_equal(client.submit("scale", frames).result()["y"].numpy(), 2 * noise(N) + 1)

    def test_asyncio_takes_them_in_order(self):
        x = noise(1000)

        async def run():
            async with AsyncClient(self.daemon.url) as c, c.session("fir") as s:
                frames = await c.frames("fir", length=1000, device="cuda")
                frames.write(x)
                first, second = await asyncio.gather(s.submit(Foreign(frames)), s.submit(Foreign(frames)))
                expected = np.convolve(np.concatenate([x, x]), [1, 2, 3])[:2000]
                np.testing.assert_allclose(np.concatenate([first["y"].numpy(), second["y"].numpy()]), expected,
                                           rtol=1e-5, atol=1e-5)
        asyncio.run(run())


if __name__ == "__main__":
    unittest.main()
