"""The account of samples through a real daemon: a result says which samples of its sender's clock it is of.

The signals are ramps whose values are the samples' own numbers. A filter of linear phase whose taps add up to 1 gives the
ramp again, later by its group delay: so each output is the number of the sample at which it stands.

PENSTOCK_TEST_SEED repeats a run.
"""

import asyncio
import math
import os
import random
import unittest

import numpy as np

from daemon_process import VERSION, Daemons, pipeline
from raw_client import RawClient

SEED = int(os.environ.get("PENSTOCK_TEST_SEED", random.randrange(2**32)))
LONGEST = 4096


def taps(count, phase="linear"):
    """Low-pass taps that add up to 1."""
    made = np.hamming(count + 2)[1:-1] if phase == "linear" else np.arange(count, 0, -1.0)
    return (made / made.sum()).astype(np.float32)


def fir(name, source, given, decimation):
    return name, "fir", f'from = "{source}"\ntaps = {given.tolist()}\ndecimation = {decimation}\n'


ODD, EVEN, MINIMUM = taps(33), taps(16), taps(9, "minimum")
LENGTH = 32  # of a row
CHAIN = [fir("odd", "input", ODD, 4), fir("even", "odd", EVEN, 2), fir("half", "input", EVEN, 3),
         fir("minimum", "input", MINIMUM, 5),
         ("rows", "reframe", f'from = "odd"\nlength = {LENGTH}\n'),
         ("psd", "power_spectrum", 'from = "rows"\n'),
         ("average", "accumulate", 'from = "psd"\nframes = 2\nalong = "rows"\n'),
         ("blocks", "reframe", f'from = "input"\nlength = {LENGTH}\n'),
         ("windows", "reframe", f'from = "input"\nlength = {LENGTH}\nhop = 5\n'),
         ("padded", "reframe", f'from = "odd"\nlength = {LENGTH}\nhop = 7\npadding = 20\n'),
         ("same", "affine", 'from = "input"\n')]
OUTPUTS = [name for name, _, _ in CHAIN]
STEPS = {"odd": 4, "even": 8, "half": 3, "minimum": 5, "rows": 4 * LENGTH, "psd": 4 * LENGTH, "average": 4 * LENGTH,
         "blocks": LENGTH, "windows": 5, "padded": 4 * 7, "same": 1}
#: The same of taps that are complex, or symmetric but for a sign or a conjugation.
PHASES = {"opposite": ([1.0, 2.0, 0.0, -2.0, -1.0], None), "hermitian": ([1.0, 2.0, 1.0], [1.0, 0.0, -1.0]),
          "no_phase": ([1.0, 2.0, 1.0], [1.0, 0.0, 1.5]), "one": ([2.0], [1.0])}
PHASE_STAGES = [(name, "fir", f'from = "input"\ntaps = {real}\n' + ("" if imaginary is None else
                                                                     f"taps_imag = {imaginary}\n"))
                for name, (real, imaginary) in PHASES.items()]
#: Operators whose delay the daemon knows: each with what an impulse may be off by, in samples. A decimation keeps the
#: sample that is next to it; a row has the impulse at its own place.
IMPULSES = [(*fir("linear", "input", ODD, 1), 0), (*fir("between", "input", EVEN, 1), 1),
            (*fir("fifth", "input", ODD, 5), 2), (*fir("after", "linear", taps(9), 3), 1),
            ("scaled", "affine", 'from = "linear"\na = 2.0\n', 0),
            ("score", "moving_zscore", 'from = "input"\nwindow = 16\n', 0),
            ("in_rows", "reframe", f'from = "linear"\nlength = {LENGTH}\n', 0),
            ("faster", "resample", 'from = "linear"\nup = 3\ndown = 2\n', 1),
            ("slower", "resample", 'from = "input"\nup = 2\ndown = 5\n', 2.25),
            ("spectra", "stft", 'from = "linear"\nlength = 32\npadding = 16\n', 0),
            ("again", "istft", 'from = "spectra"\npadding = 16\n', 0)]
CONFIGURATION = VERSION + "".join([
    pipeline("chain", "f32", [f"max {LONGEST}"], CHAIN, OUTPUTS, "batch = { max_frames = 16 }\n"),
    pipeline("fixed", "f32", [256], CHAIN[:1] + [("psd", "power_spectrum", 'from = "odd"\n')], ["odd", "psd"]),
    pipeline("phases", "cf32", ["max 64"], PHASE_STAGES, list(PHASES)),
    pipeline("rows", "f32", ["max 100"], [("row", "reframe", "length = 100\n")], ["row"]),
    pipeline("doubled", "f32", [4], [("y", "affine", "a = 2.0\n"), ("stats", "moments", 'from = "input"\n')],
             ["y", "stats"]),
    pipeline("impulses", "f32", [f"max {LONGEST}"], [each[:3] for each in IMPULSES], [each[0] for each in IMPULSES if each[0] != "spectra"],
             "batch = { max_frames = 16 }\n")])


def stands_at(clock):
    """By numpy: for each output of "chain" the sample at which its k-th element stands, of a session whose n-th sample
    is clock[n]."""
    rows = lambda k: 4 * LENGTH * k - 16  # noqa: E731
    steps = {"odd": lambda k: 4 * k - 16, "even": lambda k: 8 * k - 16 - 4 * 7.5, "half": lambda k: 3 * k - 7.5,
             "minimum": lambda k: 5 * k, "rows": rows, "psd": rows, "average": rows, "blocks": lambda k: LENGTH * k, "windows": lambda k: 5 * k,
             "padded": lambda k: 4 * (7 * k - 20) - 16, "same": lambda k: k}
    return {name: (lambda k, step=step: math.floor(clock[0] + step(k))) for name, step in steps.items()}


class SampleAccountTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.daemons = Daemons(CONFIGURATION)

    @classmethod
    def tearDownClass(cls):
        cls.daemons.stop()

    def each_client(self, check, **options):
        from penstock import Client

        def connected(daemon):
            with Client(daemon.url, **options) as client:
                check(client)

        self.daemons.each(self, connected)

    def test_a_session_has_the_same_indices_however_it_is_cut(self):
        start, total = 1000, 20000
        clock = np.arange(start, start + total)
        expected = stands_at(clock)

        def check(client):
            chance = random.Random(SEED)
            for longest in (7, 300, LONGEST):
                with self.subTest(PENSTOCK_TEST_SEED=SEED, longest=longest), client.session("chain") as session:
                    at, sent = 0, []
                    last = total if longest > 7 else 1500
                    while at < last:
                        count = min(last - at, chance.randint(1, longest))
                        sent.append((at, session.submit(clock[at:at + count].astype(np.float32), index=int(clock[at]),
                                                        time_ns=int(clock[at]) * 1000, epoch=3)))
                        at += count
                    had = dict.fromkeys(OUTPUTS, 0)
                    for first, future in sent:
                        result = future.result()
                        account = result.account
                        self.assertEqual((account.index, account.time_ns, account.epoch, account.lost_before),
                                         (start + first, 1000 * (start + first), 3, 0))
                        for name in OUTPUTS:
                            self.assertEqual(account.index_of(name), expected[name](had[name]), (name, first))
                            had[name] += len(result[name])
                        self.check_ramps(result)
                    self.assertGreater(had["even"], last // 8 - 1)

        self.each_client(check, timeout=120)

    def check_ramps(self, result):
        """Filters of linear phase give the ramp itself, once they have passed the start; half a sample is rounded."""
        for name in ("odd", "even", "half", "rows", "blocks", "windows", "padded", "same"):
            array = result[name]
            values = array if array.ndim == 1 else array[:, 0]
            index = result.account.index_of(name) + STEPS[name] * np.arange(len(values))
            settled = index > 1000 + 100
            np.testing.assert_allclose(values[settled], index[settled] + (0.5 if name == "half" else 0.0), atol=0.02)

    def test_a_loss_moves_the_indices_of_what_comes_behind_it(self):
        def check(client):
            with client.session("chain") as session:
                one = session.submit(np.zeros(100, np.float32), index=500).result().account
                two = session.submit(np.zeros(100, np.float32), index=700, lost_before=100, filled=3).result().account
            self.assertEqual((one.index_of("same"), one.index_of("blocks"), one.index_of("odd")), (500, 500, 484))
            # The fourth block began with 4 samples of the first request.
            self.assertEqual((two.index_of("same"), two.index_of("blocks"), two.index_of("odd")), (700, 696, 684))
            self.assertEqual((two.lost_before, two.filled, int(two.flags)), (100, 3, 3))

        self.each_client(check)

    def test_filled_samples_count_wherever_an_output_reaches_back_to_them(self):
        """As many at most as a row's samples, and never fewer than there are."""
        def check(client):
            chance = random.Random(SEED)
            for cuts in ([100] * 20, [chance.randint(1, 90) for _ in range(60)]):
                with self.subTest(PENSTOCK_TEST_SEED=SEED, cuts=cuts), client.session("rows") as session:
                    filled = np.zeros(sum(cuts), bool)
                    at = 0
                    for count in cuts:
                        share = chance.choice((0, 0, 0.2, 1))
                        filled[at:at + count] = [chance.random() < share for _ in range(count)]
                        account = session.submit(np.zeros(count, np.float32), index=at,
                                                 filled=int(filled[at:at + count].sum())).result().account
                        first = min(account.index_of("row"), at)
                        end = at + count
                        true = int(filled[first:end].sum())
                        self.assertEqual(first, at - at % 100)
                        self.assertGreaterEqual(account.filled, true)
                        self.assertLessEqual(account.filled, end - first)
                        if cuts[0] == 100 or first == at:
                            self.assertEqual(account.filled, true)
                        self.assertEqual(bool(account.flags & 2), account.filled > 0)
                        at = end

        self.each_client(check)

    def test_taps_of_linear_phase_have_their_delay_taken_off_and_no_others(self):
        def check(client):
            with client.session("phases") as session:
                account = session.submit(np.zeros(64, np.complex64), index=100).result().account
            self.assertEqual([account.index_of(name) for name in PHASES], [98, 99, 100, 100])

        self.each_client(check)

    def test_an_impulse_comes_out_at_the_sample_at_which_it_went_in(self):
        total, start = 600, 7000

        def check(client):
            chance = random.Random(SEED)
            steps = {each.name: each.steps / each.indices for each in client.pipelines["impulses"].outputs}
            self.assertEqual((steps["faster"], steps["slower"]), (2 / 3, 5 / 2))
            for at in (200, 203, chance.randrange(100, 400)):
                samples = np.zeros(total, np.float32)
                samples[at] = 1.0
                cut = chance.randrange(1, total)
                with client.session("impulses") as session:
                    results = [session.submit(part, index=start + first).result()
                               for first, part in ((0, samples[:cut]), (cut, samples[cut:]))]
                for name, _, _, off in (each for each in IMPULSES if each[0] in steps):
                    with self.subTest(PENSTOCK_TEST_SEED=SEED, output=name, at=at, cut=cut):
                        first = results[0].account.index_of(name)
                        made = np.abs(np.concatenate([each[name] for each in results]))
                        peak, *within = np.unravel_index(np.argmax(made), made.shape)
                        self.assertAlmostEqual(first + steps[name] * peak + sum(within), start + at, delta=off)

        self.each_client(check)

    def test_several_frames_of_one_length_have_the_index_of_the_first(self):
        def check(client):
            with client.session("fixed") as session:
                for request in range(3):
                    first = 768 * request
                    result = session.submit(np.arange(first, first + 768, dtype=np.float32).reshape(3, 256),
                                            index=first).result()
                    self.assertEqual(result.account.index_of("odd"), first - 16)
                    self.assertEqual(result.account.index_of("psd"), first - 16)
                    if request > 0:
                        np.testing.assert_allclose(result["odd"].ravel(), first - 16 + 4 * np.arange(192), atol=0.02)
            result = client.submit("doubled", np.zeros((5, 4), np.float32), index=-7).result()
            self.assertEqual((result.account.index_of("y"), result.account.index_of("stats")), (-7, -7))

        self.each_client(check)

    def test_without_an_account_a_result_is_as_before(self):
        def check(client):
            self.assertIsNone(client.submit("doubled", np.zeros(4, np.float32)).result().account)
            with client.session("chain") as session:
                self.assertIsNone(session.run(np.zeros(10000, np.float32)).account)

        self.each_client(check)

    def test_a_time_alone_gives_indices_from_the_requests_own_first_sample(self):
        def check(client):
            account = client.submit("doubled", np.zeros(4, np.float32), time_ns=123).result().account
            self.assertEqual((account.index, account.time_ns, account.index_of("y")), (None, 123, 0))

        self.each_client(check)

    def test_all_that_an_account_can_hold_comes_back(self):
        from penstock import SampleAccount
        most = SampleAccount(2**63 - 1, -2**63, 2**64 - 1, 2**32 - 1, 2**32 - 1, 4, 31)

        def check(client):
            account = client.submit("doubled", np.zeros(4, np.float32), account=most).result().account
            self.assertEqual((account.index, account.time_ns, account.lost_before, account.epoch, account.filled,
                              account.time_quality, account.flags), tuple(most))
            with client.session("chain") as session:  # an index before the least one wraps around
                account = session.submit(np.zeros(4, np.float32),
                                         account=most._replace(index=-2**63)).result().account
                self.assertEqual(account.index_of("odd"), 2**63 - 16)

        self.each_client(check)

    def test_shared_memory_carries_it_too(self):
        def check(client):
            samples = np.arange(LONGEST, dtype=np.float32)
            with client.session("chain") as session:
                for request in range(3):
                    result = session.submit(samples, index=LONGEST * request).result()
                    self.assertEqual(result.account.index_of("odd"), LONGEST * request - 16)
            self.assertEqual(client.large_requests, {"shm": 3, "zmq": 0})

        self.each_client(check, transport="shm")

    def test_a_recording_is_numbered_from_its_first_sample(self):
        def check(client):
            samples = np.arange(3 * LONGEST + 5, dtype=np.float32)
            with client.session("chain") as session:
                whole = session.run(samples, index=50, epoch=2)
                self.assertEqual((whole.account.index, whole.account.epoch, whole.account.index_of("rows")), (50, 2, 34))
            with client.session("chain") as session:
                parts = list(session.stream([samples[:1000], samples[1000:]], index=50))
            self.assertEqual([part.account.index for part in parts], [50, 1050, 1050 + LONGEST, 1050 + 2 * LONGEST])
            for part in parts:
                self.assertEqual(part["same"][0], part.account.index_of("same") - 50)

        self.each_client(check)

    def test_the_asynchronous_client_has_it(self):
        from penstock import AsyncClient

        async def ask(url):
            async with AsyncClient(url) as client:
                one = await client.submit("doubled", np.zeros(4, np.float32), index=9)
                async with client.session("chain") as session:
                    two = await session.submit(np.zeros(8, np.float32), index=100, epoch=1)
                    whole = await session.run(np.zeros(2 * LONGEST, np.float32), index=108)
                return one.account.index, two.account.index_of("odd"), two.account.epoch, whole.account.index_of("odd")

        self.daemons.each(self, lambda daemon: self.assertEqual(asyncio.run(ask(daemon.url)), (9, 84, 1, 92)))

    def test_what_no_header_can_hold_is_refused_before_it_is_sent(self):
        def check(client):
            for wrong in ({"index": 2**63}, {"epoch": -1}, {"lost_before": 2**64}, {"filled": 2**32}):
                with self.subTest(wrong), self.assertRaises(ValueError):
                    client.submit("doubled", np.zeros(4, np.float32), **wrong)
            with self.assertRaises(TypeError):
                client.submit("doubled", np.zeros(4, np.float32), index=1.5)

        self.each_client(check)

    def test_a_repeat_is_answered_with_the_same_account(self):
        def check(daemon):
            with RawClient(daemon.url) as client:
                session = client.open("chain")
                self.assertEqual(self.twice(client, "chain", np.zeros(9, np.float32), session),
                                 (104 + 8 * len(OUTPUTS), 300, 284))
                self.assertEqual(self.twice(client, "doubled", np.zeros(4, np.float32)), (104 + 16, 300, 300))

        self.daemons.each(self, check)

    def twice(self, client, name, samples, session=0):
        """Sends the same SUBMIT two times. Of both results, which must be the same: header_len, the account's index and
        that of the first output."""
        wire = client.wire
        client.requests += 1
        header = wire.Header(wire.MessageType.SUBMIT, client.requests, pipeline=client.pipelines[name], session=session,
                             tensors=1, frames=1, header_len=wire.ACCOUNT_HEADER_BYTES)
        head = wire.encode_header(header) + wire.encode_account(wire.SampleAccount(index=300, flags=1))
        parts = [head + wire.encode_tensor(wire.tensor_header(samples[None])), samples.tobytes()]
        answers = []
        for _ in range(2):
            client.socket.send_multipart(parts)
            answers.append(client.socket.recv_multipart())
        self.assertEqual(answers[0], answers[1])
        got = wire.decode_header(answers[0][0])
        self.assertEqual(got.type, wire.MessageType.RESULT)
        return (got.header_len, wire.decode_account(answers[0][0], got).index,
                wire.output_indices(answers[0][0], got)[0])


if __name__ == "__main__":
    unittest.main()
