"""Every open, read, write and the like of a check, a start and a reload fails once, or is short: the outcome is an exit
code of docs/operating.md or the whole configuration; never 78, a hang, or another configuration."""

import http.client
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

from attack import LONG, chosen
from daemon_process import BIN, VERSION, pipeline, wait_until
from guarded_daemon import keygen
from faults import FAULTS, HARMLESS, Inject, InjectedDaemon, npy, text_of

# A file is left over where a start, or a check, is told that it can't be had now; never one that is taken for wrong.
DOCUMENTED = {69, 70}
# A library in C aborts, at an allocation of its own.
WITHOUT_MEMORY = {69, 70, 71, -signal.SIGABRT}
OWN = ("penstock.toml", "taps.npy", "server.key", "authorized_keys")
KEYS = '[security]\nsecret_key_file = "server.key"\nauthorized_keys_file = "authorized_keys"\n'
CASES = 40  # of each sweep, where no long one is asked for


def text(factor):
    """Four pipelines; one of them with a factor that tells two configurations apart."""
    pipelines = [pipeline("filtered", "f32", [16], [("y", "fir", 'taps = "taps.npy"\n')], ["y"])]
    pipelines += [pipeline(f"p{number}", "f32", [16], [("y", "affine", f"a = {factor}.0\n")], ["y"])
                  for number in range(3)]
    return VERSION + KEYS + "".join(pipelines)


def cases_of(calls):
    """(call, fault, lasting) of the configuration's own files, and of the others. What is no mere
    interruption is tried of that call alone, and lasting: of every call of its kind from there on."""
    own = [each for each in calls if each.path.endswith(OWN)]
    others = [each for each in calls if not each.path.endswith(OWN)]
    return [[(call, fault, lasting) for call in some for fault in FAULTS[call.name]
             for lasting in ((False,) if fault in HARMLESS else (False, True))] for some in (own, others)]


class Folder:
    """A configuration with a .npy file and keys."""

    def __init__(self, test):
        folder = tempfile.TemporaryDirectory(prefix="penstock-")
        test.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        self.inject = Inject(self.path)
        keygen(self.path / "server.key")
        (self.path / "authorized_keys").write_text(keygen(self.path / "client.key") + "\n")
        os.chmod(self.path / "authorized_keys", 0o644)
        (self.path / "taps.npy").write_bytes(npy(1, 2, 3))
        (self.path / "penstock.toml").write_text(text(2))

    def run(self, *words):
        return subprocess.run([BIN / "penstockd", "--config", "penstock.toml", *words], capture_output=True, text=True,
                              timeout=60, cwd=self.path, env=self.inject.environment())


class SystemCallSweepTest(unittest.TestCase):
    def daemon(self):
        keys = Folder(self).path
        made = InjectedDaemon(text(2), {"taps.npy": npy(1, 2, 3), **{name: (keys / name).read_bytes() for name in (
            "server.key", "authorized_keys")}})
        self.addCleanup(made.let_go)
        return made

    def test_a_check_says_good_of_the_whole_configuration_alone(self):
        folder = Folder(self)
        for words in (["--check-config"], ["--print-config"]) if LONG else (["--check-config"],):
            good = []
            calls = folder.inject.calls_of(lambda: good.append(folder.run(*words)))
            self.assertEqual(good[0].returncode, 0, good[0].stderr)
            own, others = cases_of(calls)
            self.assertGreater(len(own), 20)
            for call, fault, lasting in chosen(own, CASES) + chosen(others, CASES // 2):
                with (self.subTest(words=words, call=call, fault=text_of(fault), lasting=lasting),
                      folder.inject.armed(call, fault, lasting)):
                    done = folder.run(*words)
                    self.assertGreaterEqual(folder.inject.hits(), 1)
                    if done.returncode == 0:
                        self.assertEqual(done.stdout, good[0].stdout)
                    self.assertIn(done.returncode, {0, *DOCUMENTED}, done.stderr)
                    if call.path.endswith(OWN) and fault in HARMLESS:
                        self.assertEqual(done.returncode, 0, done.stderr)
                    elif call.path.endswith(OWN) and call.name in ("open", "read"):
                        self.assertEqual(done.returncode, 69, done.stderr)

    def test_what_is_printed_onto_a_full_disk_is_no_success(self):
        folder = Folder(self)
        for words in (["--check-config"], ["--print-config"], ["--print-plan", "p0"], ["--doctor"]):
            with self.subTest(words=words), open("/dev/full", "w") as full:
                done = subprocess.run(
                    [BIN / "penstockd", "--config", folder.path / "penstock.toml", "--backend", "host", *words],
                    stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
                self.assertEqual(done.returncode, 69, done.stderr)

    def test_a_start_serves_the_whole_configuration_or_ends_with_a_documented_code(self):
        daemon = self.daemon()
        served = daemon.served()
        self.assertEqual(daemon.end(), 0)

        def serve(codes=DOCUMENTED):
            daemon.launch()
            code = daemon.ready_or_ended()
            if code is not None:
                self.assertIn(code, codes, daemon.log.read_text())
                return
            daemon.inject.disarm()
            try:
                found = daemon.served()
            except (OSError, http.client.HTTPException):  # ended by what failed before
                self.assertIn(daemon.process.wait(60), codes, daemon.log.read_text())
                return
            self.assertEqual(found, served)
            self.assertEqual(daemon.end(), 0)

        own, others = cases_of(daemon.inject.calls_of(serve))
        for call, fault, lasting in chosen(own, CASES // 5) + chosen(others, CASES // 5):
            with (self.subTest(call=call, fault=text_of(fault), lasting=lasting),
                  daemon.inject.armed(call, fault, lasting)):
                serve(WITHOUT_MEMORY if call.name == "mmap" else DOCUMENTED)

    def test_a_reload_takes_the_whole_configuration_or_none(self):
        daemon = self.daemon()
        hashes, factor = {2: daemon.served()["hash"]}, 2
        for each in (3, 2):
            (daemon.path / "penstock.toml").write_text(text(each))
            status, answer = daemon.ask_for_reload()
            self.assertEqual(status, 200, answer)
            self.assertEqual(hashes.setdefault(each, answer["hash"]), answer["hash"])

        def reload():
            (daemon.path / "penstock.toml").write_text(text(5 - factor))
            return daemon.ask_for_reload()

        calls = daemon.inject.calls_of(reload)
        factor = 5 - factor
        own, others = cases_of(calls)
        self.assertGreater(len(own), 10)
        for call, fault, lasting in chosen(own, CASES) + chosen(others, CASES // 2):
            with self.subTest(call=call, fault=text_of(fault), lasting=lasting):
                with daemon.inject.armed(call, fault, lasting):
                    status, answer = reload()
                if status == 200:
                    factor = 5 - factor
                else:
                    self.assertEqual(status, 422, answer)
                self.assertEqual(answer["hash"], hashes[factor], answer)
                if call.path.endswith(OWN) and fault in HARMLESS:
                    self.assertEqual(status, 200, answer)
                elif call.path.endswith(OWN) and call.name in ("open", "read"):
                    self.assertEqual(status, 422, answer)
        # What is reported is what is served, a moment later.
        wait_until(lambda: daemon.served() == {each: answer[each] for each in ("version", "hash")}, "it is served")
        self.assertEqual(daemon.end(), 0)


if __name__ == "__main__":
    unittest.main()
