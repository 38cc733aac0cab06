"""Leases of shared memory: who gets one, when it ends, and who owns the memory meanwhile."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from daemon_process import VERSION, Daemon, wait_until
from shared_client import (
    ERROR, EXPIRED, LENGTH, MIB, PLACE, RELEASED, SLOW_CONFIGURATION, SLOW_LENGTH, TOO_LARGE, UNKNOWN_ARENA, Arena,
    SharedClient, SharingTest, noise)

GET_STATUS, GOODBYE = 6, 3
CREDITS = 256  # requests, as a power of two: so many replies are kept


class SharedLeaseTest(SharingTest):
    text = SLOW_CONFIGURATION

    def test_a_ticket_is_good_once_and_none_can_be_made_up(self):
        def checked(daemon):
            with SharedClient(daemon.url) as client:
                where, ticket = client.ticket(MIB)
                for wrong in ("0" * 32, ticket[::-1], ticket.upper() + "", "x" * 32):
                    if wrong != ticket:
                        with self.assertRaises(ConnectionError):
                            Arena(where, wrong)
                arena = Arena(where, ticket)
                with self.assertRaises(ConnectionError):
                    Arena(where, ticket)
                arena.end()
        self.daemons.each(self, checked)

    def test_no_client_and_not_all_together_get_more_than_they_may(self):
        def bounded(daemon):
            wait_until(lambda: self.shared(daemon)["arenas"] == 0, "nothing is left over")
            with contextlib.ExitStack() as all_:
                clients = [all_.enter_context(SharedClient(daemon.url)) for _ in range(3)]
                arenas = [clients[0].attach(24 * MIB)]
                self.assertEqual(clients[0].ticket(9 * MIB)[0].status, TOO_LARGE)
                self.assertEqual(clients[1].ticket(33 * MIB)[0].status, TOO_LARGE)
                tickets = [clients[1].ticket(32 * MIB), clients[2].ticket(32 * MIB)]
                arenas.append(Arena(*tickets[0]))
                with self.assertRaises(ConnectionError):  # a ticket reserves nothing
                    Arena(*tickets[1])
                self.assertEqual(clients[2].ticket(9 * MIB)[0].status, 0x0100)
                arenas.append(clients[2].attach(8 * MIB))
                self.assertEqual(self.shared(daemon), {"arenas": 3, "bytes": 64 * MIB, "device_bytes": 0})
                for each in arenas:
                    each.end()
                wait_until(lambda: self.shared(daemon) == {"arenas": 0, "bytes": 0, "device_bytes": 0}, "all of it comes back")
        self.daemons.each(self, bounded)

    def test_a_lease_ends_with_its_connection_and_with_its_client(self):
        def ended(daemon):
            frames = noise(1, LENGTH)
            with SharedClient(daemon.url) as client:
                arena = client.attach(MIB)
                place = PLACE.pack(arena.number, 0, 0, frames.nbytes, frames.nbytes)
                arena.end()
                wait_until(lambda: self.shared(daemon)["arenas"] == 0, "the connection has ended")
                self.assertEqual(self.refusal(client, "scale", frames, place), UNKNOWN_ARENA)
                arena = client.attach(MIB)
            self.assertTrue(arena.ended(), "its client said GOODBYE")
            arena.end()
        self.daemons.each(self, ended)

    def test_an_ended_lease_stays_refused_however_many_come_after_it(self):
        def refused(daemon):
            frames = noise(1, LENGTH)
            size = frames.nbytes
            with SharedClient(daemon.url) as client, SharedClient(daemon.url) as other:
                old = []
                for each in range(8):
                    with self.subTest(lease=each):
                        arena, others = client.attach(MIB), other.attach(MIB)
                        for number in (*old, others.number):
                            place = PLACE.pack(number, 0, 0, size, size)
                            self.assertEqual(self.refusal(client, "scale", frames, place), UNKNOWN_ARENA)
                        np.testing.assert_array_equal(client.submit_shared("scale", arena, frames)[0], 2 * frames + 1)
                        old += [arena.number, others.number]
                        arena.end()
                        others.end()
                        wait_until(lambda: self.shared(daemon)["arenas"] == 0, "both have come back")
        self.daemons.each(self, refused)

    def test_what_a_client_keeps_after_its_lease_counts_until_it_lets_go(self):
        def counted(daemon):
            wait_until(lambda: self.shared(daemon) == {"arenas": 0, "bytes": 0, "device_bytes": 0}, "nothing is left over")
            with SharedClient(daemon.url) as client:
                arena = client.attach(MIB)
                arena.leave()
                wait_until(lambda: self.shared(daemon)["arenas"] == 0, "the lease has ended")
                self.assertEqual(self.shared(daemon)["bytes"], MIB)
                arena.memory.close()
                wait_until(lambda: self.shared(daemon)["bytes"] == 0, "the mapping has gone")
        self.daemons.each(self, counted)

    def test_a_ticket_is_left_behind_with_goodbye(self):
        def left(daemon):
            with SharedClient(daemon.url) as client:
                ticket, wire = client.ticket(MIB), client.wire
                client.socket.send(wire.encode_header(wire.Header(GOODBYE)))
                client._ask(wire.MessageType.HELLO, {"client": "again", "version": "1"})
                with self.assertRaises(ConnectionError):
                    Arena(*ticket)
                client.attach(MIB).end()
        self.daemons.each(self, left)

    def test_a_killed_client_is_reclaimed_after_its_last_request(self):
        program = ("import os, signal, sys\nimport numpy as np\nfrom shared_client import PLACE, SharedClient\n"
                   "client = SharedClient(sys.argv[1])\narena = client.attach(1 << 20)\n"
                   f"frame = np.ones((1, {SLOW_LENGTH}), np.float32)\narena.memory[:frame.nbytes] = frame.tobytes()\n"
                   "client.send_place('slow', client.wire.tensor_header(frame),"
                   " PLACE.pack(arena.number, 0, 0, frame.nbytes, frame.nbytes))\n"
                   "client._ask(6, {})\nos.kill(os.getpid(), signal.SIGKILL)\n")

        def reclaimed(daemon):
            killed = subprocess.run([sys.executable, "-c", program, daemon.url], cwd=os.path.dirname(__file__),
                                    timeout=60)
            self.assertEqual(killed.returncode, -signal.SIGKILL)
            wait_until(lambda: self.shared(daemon) == {"arenas": 0, "bytes": 0, "device_bytes": 0}, "the memory comes back")
            wait_until(lambda: daemon.counters()["status"]["requests"]["in_flight"] == 0, "the request ends")
        self.daemons.each(self, reclaimed)

    def test_a_killed_client_is_reclaimed_and_forgotten_also_when_its_child_has_the_connection_too(self):
        program = ("import os, signal, sys\nfrom shared_client import SharedClient\n"
                   "client = SharedClient(sys.argv[1])\narena = client.attach(1 << 20)\n"
                   "if os.fork() == 0:\n    os.read(0, 1)\n    os._exit(0)\n"
                   "os.kill(os.getpid(), signal.SIGKILL)\n")
        daemon = Daemon("host", "callback", SLOW_CONFIGURATION + '[clients]\nidle_timeout = "1s"\n')
        self.addCleanup(daemon.stop)
        with subprocess.Popen([sys.executable, "-c", program, daemon.url], cwd=os.path.dirname(__file__),
                              stdin=subprocess.PIPE) as killed:  # its end is the child's
            self.assertEqual(killed.wait(60), -signal.SIGKILL)
            wait_until(lambda: self.shared(daemon)["arenas"] == 0, "the lease has ended")
            with SharedClient(daemon.url) as other:
                wait_until(lambda: self.clients(other) == 1, "the client is forgotten")
            self.assertEqual(self.shared(daemon)["bytes"], MIB, "the child has the mapping, too")
        wait_until(lambda: self.shared(daemon)["bytes"] == 0, "and has ended")

    def test_a_quiet_client_stays_as_long_as_it_shares_memory(self):
        daemon = Daemon("host", "callback", SLOW_CONFIGURATION + '[clients]\nidle_timeout = "1s"\n')
        self.addCleanup(daemon.stop)
        with SharedClient(daemon.url) as quiet, SharedClient(daemon.url), SharedClient(daemon.url) as other:
            arena = quiet.attach(MIB)
            wait_until(lambda: self.clients(other) == 2, "who shares nothing is forgotten")
            self.assertEqual(quiet.submit_shared("scale", arena, np.ones((1, LENGTH), np.float32))[0][0, 0], 3)
            arena.end()

    @staticmethod
    def clients(other):
        """How many the daemon knows, says one of them."""
        return other._ask(GET_STATUS, {})[1]["clients"]

    def test_an_error_says_that_the_memory_is_in_use_and_then_that_it_is_not(self):
        # On the host: a GPU is done before the time has run out.
        daemon = Daemon("host", "callback", SLOW_CONFIGURATION)
        self.addCleanup(daemon.stop)
        with self.client(daemon) as (client, arena):
            frames = np.ones((2, SLOW_LENGTH), np.float32)
            arena.memory[:frames.nbytes] = frames.tobytes()
            request = client.send_place("slow", client.wire.tensor_header(frames),
                                        PLACE.pack(arena.number, 0, 0, frames.nbytes, frames.nbytes), 2,
                                        timeout_ns=50_000_000)
            header, _, body = client.receive()
            self.assertEqual((header.type, header.status, header.request_id), (ERROR, EXPIRED, request))
            self.assertTrue(body["holds"])
            for kind in (client.wire.MessageType.CANCEL, client.wire.MessageType.SUBMIT):
                # In place of the kept ERROR, which another request of the same remainder has pushed out.
                self.push_out(client, request)
                client.socket.send(client.wire.encode_header(client.wire.Header(kind, request)))
                header, _, body = client.receive()
                self.assertEqual((header.type, header.request_id, body.get("holds")), (ERROR, request, True))
            self.assertEqual(daemon.counters()["status"]["batches_in_flight"], 1, "the device still has it")
            header, _, _ = client.receive()
            self.assertEqual((header.type, header.request_id), (RELEASED, request))
            self.assertEqual(daemon.counters()["status"]["batches_in_flight"], 0)

    @staticmethod
    def push_out(client, request):
        """Has a request answered whose reply takes the place of that one's."""
        client.requests = request + CREDITS - 1
        client.submit("scale", np.ones(LENGTH, np.float32))

    def test_memory_that_the_device_still_writes_to_outlives_a_cut_drain(self):
        text = SLOW_CONFIGURATION.replace(VERSION, VERSION + '[daemon]\ndrain_timeout = "0 ms"\n')
        daemon = Daemon("host", "callback", text)
        self.addCleanup(daemon.folder.cleanup)
        # It does not answer the farewell, so that the daemon is there when the batch is done.
        with SharedClient(daemon.url), SharedClient(daemon.url) as client:
            arena = client.attach(8 * MIB)
            frames = np.ones((2, SLOW_LENGTH), np.float32)
            arena.memory[:frames.nbytes] = frames.tobytes()
            client.send_place("slow", client.wire.tensor_header(frames),
                              PLACE.pack(arena.number, 0, 0, 4 * MIB, frames.nbytes), 2)
            client._ask(GET_STATUS, {})
            daemon.process.send_signal(signal.SIGTERM)
            header, _, body = client.receive()
            self.assertEqual((header.type, body["holds"]), (ERROR, True))
            self.assertEqual(client.receive()[0].type, GOODBYE, "no RELEASED: it is in use until the end")
            client.socket.send(client.wire.encode_header(client.wire.Header(GOODBYE)))
            arena.end()
            self.assertEqual(daemon.process.wait(60), 3, daemon.log.read_text())

    def test_who_comes_again_under_the_same_name_hears_nothing_of_earlier_requests(self):
        daemon = Daemon("host", "callback", SLOW_CONFIGURATION)
        self.addCleanup(daemon.stop)
        with SharedClient(daemon.url) as client:
            arena, frames = client.attach(8 * MIB), np.ones((2, SLOW_LENGTH), np.float32)
            arena.memory[:frames.nbytes] = frames.tobytes()
            tensor, wire = client.wire.tensor_header(frames), client.wire
            client.send_place("slow", tensor, PLACE.pack(arena.number, 0, 0, 4 * MIB, frames.nbytes), 2)
            client._ask(GET_STATUS, {})
            client.socket.send(wire.encode_header(wire.Header(GOODBYE)))
            self.assertEqual(client._ask(wire.MessageType.HELLO, {"client": "again", "version": "1"})[0].type, 2)
            wait_until(lambda: daemon.counters()["status"]["batches_in_flight"] == 0, "the batch ends")
            self.assertEqual(client._ask(GET_STATUS, {})[0].type, 7, "no RELEASED came before")
            arena.end()

    def test_a_daemon_that_shares_nothing_says_so(self):
        daemon = Daemon("host", "callback", SLOW_CONFIGURATION.replace('max_bytes = "64 MiB"', 'max_bytes = "0 B"'))
        self.addCleanup(daemon.stop)
        with SharedClient(daemon.url) as client:
            self.assertEqual(client.ticket(MIB)[0].status, 0x0100)

    def test_a_socket_may_have_a_file(self):
        folder = tempfile.TemporaryDirectory(prefix="penstock-")
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "arenas")
        text = SLOW_CONFIGURATION.replace("[shared_memory]\n", f'[shared_memory]\nsocket = "{path}"\n')
        daemon = Daemon("host", "callback", text)
        self.addCleanup(daemon.stop)
        with self.client(daemon) as (client, arena):
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o660)
            self.assertEqual(client.submit_shared("scale", arena, np.ones((1, LENGTH), np.float32))[0][0, 0], 3)


if __name__ == "__main__":
    unittest.main()
