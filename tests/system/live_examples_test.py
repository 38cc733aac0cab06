"""Examples of live data run on the host backend, and each sample of theirs is accounted for.

Blocks of docs/live.md and of deploy/examples/live/README.md are what pipelines_document_test says. Besides, a command
that ends with "&" goes on until its part of the page ends, and addresses of this machine get ports that are free.
GNU Radio's part needs a Python that has it.
"""

import contextlib
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import unittest

from daemon_process import BIN, free_port, wait_until
from pipelines_document_test import STAND_IN, STOP, TREE, Walkthrough, missing, missing_for, parts_of

EXAMPLES = TREE / "deploy/examples/live"
PAGES = [TREE / "docs/live.md", EXAMPLES / "README.md"]
HARNESS = TREE / "tests/bench/live.py"
FATES = ("delivered", "network", "kernel", "overrun", "late", "waiting")
PORT = re.compile(r'(127\.0\.0\.1(?::|", ))(\d+)')

STAND_INS = {
    "rtl_tcp": """
        import os
        assert sys.argv[1:3] == ["-a", "127.0.0.1"], sys.argv
        one = [round(127.5 + 100 * part(math.pi / 2 * n)) for n in range(1024) for part in (math.cos, math.sin)]
        open("carrier.cu8", "wb").write(bytes(one) * 16)
        os.execv(sys.executable, [sys.executable, "rtl_tcp_server.py", "carrier.cu8", "--port", "{rtl_tcp}"])
    """,
    # A microphone goes on as long as it is read.
    "arecord": """
        import time
        assert sys.argv[1:] == "-q -t raw -f S16_LE -r 48000 -c 1".split(), sys.argv
        while True:
            write(struct.pack("<4800h", *(round(16000 * math.sin(2 * math.pi * n / 48)) for n in range(4800))))
            sys.stdout.flush()
            time.sleep(0.1)
    """,
}


@functools.lru_cache(maxsize=None)
def without_gnuradio():
    """Why flowgraphs can't run here; empty when they can."""
    done = subprocess.run([sys.executable, "-c", "from gnuradio import zeromq"], capture_output=True, text=True)
    return "" if done.returncode == 0 else "this Python has no GNU Radio: " + done.stderr.strip().splitlines()[-1]


class LiveWalkthrough(Walkthrough):
    """Has the examples in its folder, a daemon whose input may be piped, and programs that go on."""

    def __init__(self, test, folder, page):
        super().__init__(test, folder, page)
        self.ports, self.running, self.printed = {}, [], []
        self.url = f"ipc://{folder}/data"
        for each in EXAMPLES.glob("*"):  # a bundle has none
            (folder / each.name).write_text(self.addressed(each.read_text()))
        programs = folder / "programs"
        for name, body in STAND_INS.items():
            text = textwrap.dedent(body).replace("{rtl_tcp}", self.port("1234"))
            (programs / name).write_text(STAND_IN.format(python=sys.executable, body=text))
            (programs / name).chmod(0o755)
        (programs / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (programs / "python3").chmod(0o755)
        (programs / "penstockd").write_text(f'#!/bin/sh\nexec "{BIN}/penstockd" --backend host --listen {self.url} '
                                            f'--admin "unix:{folder}/admin" "$@"\n')
        self.environment.update(PENSTOCK_URL=self.url, PENSTOCK_ADMIN=f"unix:{folder}/admin")

    def port(self, written):
        """One that nobody has, neither for TCP nor for UDP."""
        while written not in self.ports:
            port = free_port()
            with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.bind(("127.0.0.1", port))
                self.ports[written] = str(port)
        return self.ports[written]

    def addressed(self, text):
        text = text.replace("tcp://127.0.0.1:7600", self.url)
        return PORT.sub(lambda found: found[1] + self.port(found[2]), text)

    def run_commands(self, block):
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", self.addressed(block.text), re.MULTILINE):
            if command == STOP:
                self.stop()
            elif command.endswith("&"):
                self.begin(command.rstrip(" &"))
            else:
                self.printed.append(self.run(["sh", "-c", command]).stdout)
                self.compare(block.line, expected, self.printed[-1])

    def begin(self, command):
        log = self.folder / f"log of {len(self.running)}"
        with open(log, "w") as out:
            self.running.append((subprocess.Popen(["sh", "-c", command], cwd=self.folder, env=self.environment,
                                                  stdout=out, stderr=out, start_new_session=True), log))
        if "penstockd" in command:
            done = self.run([BIN / "penstock", "--timeout", "60s", "ping"])
            self.test.assertEqual(done.returncode, 0, done.stdout + log.read_text())

    def sources(self):
        """What the daemon says of them, which must balance."""
        said = json.loads(self.run([BIN / "penstock", "info", "--json"]).stdout)["status"]
        for each in said.get("sources", []):
            samples = each["samples"]
            self.test.assertTrue(samples["balanced"], each)
            self.test.assertEqual(samples["expected"], sum(samples[fate] for fate in FATES), each)
        return {each["name"]: each for each in said.get("sources", [])}

    def stop(self):
        while self.running:
            process, log = self.running.pop()
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)
            if "penstockd" in process.args[-1]:
                wait_until(lambda: " stopped" in log.read_text(), "the daemon stops")


class LiveExamplesTest(unittest.TestCase):
    """A test for each part of the pages, and what the examples' figures are."""

    def go(self, page, title):
        """Through that part of the page. Leaves what the commands printed, and what the daemon said of its sources."""
        blocks = dict(parts_of(page.read_text()))[title]
        self.seen = {}
        with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
            walkthrough = LiveWalkthrough(self, pathlib.Path(folder), page)
            try:
                walkthrough.go(blocks)
                if walkthrough.running:
                    self.seen = walkthrough.sources()
            finally:
                walkthrough.stop()
        self.printed = walkthrough.printed

    def check_figures(self, title):
        """What is known of the examples' samples besides."""
        if title == "GNU Radio":
            self.assertGreater(self.seen["radio"]["samples"]["delivered"], 100_000)
            self.assertEqual((self.seen["radio"]["gaps"], self.seen["radio"]["epochs"]), (0, 0))
        elif title.startswith("A dongle"):
            self.assertEqual(self.seen["dongle"]["state"], "running")
            self.assertEqual(self.seen["dongle"]["samples"]["network"], 0)
        elif title.startswith("A digitizer"):
            for name, printed in zip(("box", "vita"), self.printed):
                sent, lost = map(int, re.findall(r"\d+", printed))
                samples = self.seen[name]["samples"]
                if os.geteuid() == 0:  # others may not have a buffer that holds what comes while the machine is busy
                    self.assertEqual((samples["expected"], samples["network"], samples["kernel"]), (sent + lost, lost, 0))
                self.assertGreater(self.seen[name]["gaps"], 0)
        elif title == "A microphone":
            self.assertGreaterEqual(self.seen["microphone"]["samples"]["delivered"], 20 * 1024)

    def test_each_configuration_of_the_examples_is_good(self):
        for file in sorted(EXAMPLES.glob("*.toml")):
            with self.subTest(file.name):
                done = subprocess.run([BIN / "penstockd", "--check-config", "--config", file], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertNotIn("field '", done.stderr)  # a doubt

    @unittest.skipIf(shutil.which("grcc") is None, "grcc is not installed")
    def test_the_companion_makes_a_program_of_the_flowgraph(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(["grcc", "-o", folder, EXAMPLES / "flowgraph.grc"], capture_output=True, text=True,
                                  env={**os.environ, "HOME": folder})
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            made = (pathlib.Path(folder) / "penstock_flowgraph.py").read_text()
        addresses = re.findall(r"zeromq\.(\w+)\(.*?'(tcp://[^']*)', \d+, (True|False)", made)
        configuration = (EXAMPLES / "gnuradio.toml").read_text()
        self.assertEqual([each[0] for each in addresses], ["pub_sink", "sub_source"])
        for _, address, tags in addresses:
            self.assertIn(address, configuration)
            self.assertEqual(tags, "True")

    @unittest.skipIf(without_gnuradio(), without_gnuradio())
    def test_what_comes_back_is_the_filter_of_scipy_and_a_killed_flowgraph_returns(self):
        done = subprocess.run([sys.executable, HARNESS, "--seconds", "3", "--rate", "240e3", "--patience", "20"],
                              capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


def add_test(page, title, blocks):
    def test(self):
        self.go(page, title)
        self.check_figures(title)
    name = "test_" + re.sub(r"\W+", "_", f"{page.parent.name} {title}".lower()).strip("_")
    text = "".join(block.text for block in blocks)
    reason = missing() or missing_for(blocks) or ("flowgraph.py" in text and without_gnuradio()) or ""
    setattr(LiveExamplesTest, name, unittest.skipIf(reason, reason)(test))


for each in PAGES:
    for part, its_blocks in parts_of(each.read_text()) if each.exists() else []:
        add_test(each, part, its_blocks)


if __name__ == "__main__":
    unittest.main()
