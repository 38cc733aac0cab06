"""Sessions through a real daemon: however a signal is cut, the results are those of the whole signal.

PENSTOCK_TEST_SEED repeats a run.
"""

import io
import os
import random
import signal
import unittest

from daemon_process import VERSION, Daemons, pipeline
from raw_client import RawClient
from recordings import RECORDINGS, load_reference, missing, np

LONGEST = 8192  # samples of a frame of "max N" pipelines
REQUESTS = 600  # of each session, about


class Track:
    """Samples as they travel, time first, the pipelines that take them, and what must come out of those."""

    def __init__(self, name, kind, samples, expected):
        self.name, self.kind, self.samples, self.expected = name, kind, samples, expected


def tracks_of(reference, file, kind, window, threshold):
    """A recording as tracks: each channel by itself, and two channels together. Expected are the outputs "fir"
    (decimated by 8), "psd" (of that, in frames of 1024), and "score" and "flags" of the moving z-score."""
    sidecar, raw = reference.load(str(RECORDINGS / (file + ".json")))
    values = reference.convert(sidecar, raw)
    score, flags, _ = reference.zscore(sidecar, values, window, threshold)
    filtered = reference.fir_decimate(values)
    spectrum, _ = reference.power_spectrum(filtered, 1024)

    def expected(channel):
        return {"fir": filtered.T[:, channel], "score": score.T[:, channel], "flags": flags.T[:, channel]}

    if sidecar["complex"]:
        return [Track(file, kind, raw, {**expected(0), "psd": spectrum[0]})]
    tracks = [Track(f"{file} channel {channel}", kind, np.ascontiguousarray(raw[:, channel]),
                    {**expected(channel), "psd": spectrum[channel]}) for channel in range(len(values))]
    if len(tracks) > 1:
        tracks.append(Track(file, kind + "x2", raw, expected(slice(None))))
    return tracks


def pieces(samples, description, chance):
    """The samples cut into requests at random; a tail that fills no frame of a fixed length is left out."""
    at = 0
    if description.input.variable:
        usual = max(1, 2 * len(samples) // REQUESTS)
        while at < len(samples):
            period, left = description.period, len(samples) - at
            if chance.random() < 0.02 and 2 * period <= left and period <= LONGEST:
                length = period * chance.randint(1, min(left // 2, usual + period, LONGEST) // period)
                frames = chance.randint(2, min(4, left // length, description.max_frames))
                taken = samples[at:at + frames * length].reshape(frames, length, *samples.shape[1:])
            else:
                frames, length = 1, min(left, LONGEST, chance.randint(1, usual))
                taken = samples[at:at + length]
            yield taken
            at += frames * length
        return
    length = description.input.shape[0]
    usual = max(1, 2 * len(samples) // length // REQUESTS)
    while at + length <= len(samples):
        frames = chance.randint(1, min(usual + 2, description.max_frames, (len(samples) - at) // length))
        yield samples[at:at + frames * length].reshape(frames, length, *samples.shape[1:])
        at += frames * length


class Walk:
    """One session that a track goes through, request by request."""

    def __init__(self, client, pipeline_name, track, chance):
        self.track, self.session = track, client.session(pipeline_name)
        self.pieces = pieces(track.samples, self.session.pipeline, chance)
        self.futures = []
        self.frames_dimension = []

    def step(self):
        """Submits the next request; False when there is none."""
        piece = next(self.pieces, None)
        if piece is None:
            self.session.close()
            return False
        self.frames_dimension.append(piece.ndim > self.track.samples.ndim)
        frames = len(piece) if piece.ndim > self.track.samples.ndim and self.session.pipeline.input.variable else None
        self.futures.append(self.session.submit(piece, frames=frames))
        return True

    def outputs(self):
        """All results, one behind the other, without the frames dimension."""
        results = [future.result() for future in self.futures]
        joined = {}
        for name in results[0]:
            rows = [result[name].reshape(-1, *result[name].shape[2:]) if several else result[name]
                    for several, result in zip(self.frames_dimension, results)]
            # Of fixed frames, `reframe` leaves a rows dimension of its own.
            rows = [each.reshape(-1, each.shape[-1]) if name == "psd" else each for each in rows]
            joined[name] = np.concatenate(rows)
        return joined


def go(walks, chance):
    """All walks to their ends, in a random order of their steps."""
    under_way = list(walks)
    while under_way:
        walk = chance.choice(under_way)
        if not walk.step():
            under_way.remove(walk)


FIXED = 512
WINDOW, THRESHOLD = 256, 4.0
BATCH = "batch = { max_frames = 16 }\n"  # so that a session is spread over many
SEED = int(os.environ.get("PENSTOCK_TEST_SEED", random.randrange(2**32)))


def analysis(name, dtype, shape, outputs, taps, floor):
    """convert → fir/8 → reframe → power spectrum beside the moving z-score; of these the stages that outputs need."""
    view = "magnitude" if dtype == "cu8" else "v"
    zscore = f'from = "{view}"\nwindow = {WINDOW}\nfloor = {floor!r}\n'
    stages = [
        ("v", "convert", ""),
        ("magnitude", "magnitude", ""),
        ("fir", "fir", f'from = "v"\ntaps = {taps}\ndecimation = 8\n'),
        ("rows", "reframe", 'from = "fir"\nlength = 1024\n'),
        ("psd", "power_spectrum", 'from = "rows"\n'),
        ("score", "moving_zscore", zscore),
        ("flags", "moving_zscore", zscore + f'output = "flags"\nthreshold = {THRESHOLD}\n'),
    ]
    needed = {"v", *outputs} | ({"fir", "rows"} if "psd" in outputs else set())
    needed |= {view} if "score" in outputs else set()
    return pipeline(name, dtype, shape, [stage for stage in stages if stage[0] in needed], outputs, BATCH)


def configuration(reference, sections):
    taps = str(reference.taps().tolist())
    each = ["fir", "score", "flags"]
    text = VERSION
    for kind, dtype, floor, given in (("cu8", "cu8", 0.5 / 127.5, taps), ("i16", "i16", 0.5 / 32768, taps),
                                      ("f32", "f32", 1e-4, '"taps.npy"')):
        text += analysis(kind, dtype, [f"max {LONGEST}"], ["psd", *each], given, floor)
        text += analysis(f"{kind}_fixed", dtype, [FIXED], each, given, floor)
        text += analysis(f"{kind}_long", dtype, [LONGEST], ["psd"], given, floor)
    text += analysis("i16x2", "i16", [f"max {LONGEST}", 2], each, taps, 0.5 / 32768)
    text += analysis("i16x2_fixed", "i16", [FIXED, 2], each, taps, 0.5 / 32768)
    text += analysis("i16_file", "i16", [f"max {LONGEST}"], ["fir"], '"taps.npy"', 0.0)
    text += pipeline("iir", "i16", [f"max {LONGEST}"], [
        ("v", "convert", ""),
        ("iir", "iir", f"sections = {sections.ravel().tolist()}\n")], ["iir"], BATCH)
    text += pipeline("rows", "f32", [f"max {LONGEST}"], [
        ("mean", "accumulate", 'from = "input"\nframes = 50\nalong = "rows"\n'),
        ("peak", "accumulate", 'from = "input"\nframes = 50\nalong = "rows"\nkind = "peak"\n'),
    ], ["mean", "peak"], BATCH)
    text += pipeline("frames", "f32", [64], [
        ("mean", "accumulate", 'from = "input"\nframes = 8\n'),
        ("peak", "accumulate", 'from = "input"\nframes = 8\nkind = "peak"\n'),
    ], ["mean", "peak"], BATCH)
    return text


def trailing(values, steps, function):
    """of(the last `steps` values along axis 0, the newest included), at each of them."""
    return np.array([function(values[max(0, n - steps + 1):n + 1]) for n in range(len(values))])


@unittest.skipIf(missing(client=True), missing(client=True))
class SessionsTest(unittest.TestCase):
    """On each backend and in each completion mode."""

    @classmethod
    def setUpClass(cls):
        print(f"PENSTOCK_TEST_SEED={SEED}", flush=True)
        from scipy import signal as scipy_signal
        reference = load_reference()
        cls.sosfilt = staticmethod(scipy_signal.sosfilt)
        cls.sections = scipy_signal.cheby1(5, 1.0, [0.02, 0.3], "bandpass", output="sos")
        cls.tracks = []
        for file, kind in (("modes1.cu8", "cu8"), ("speech_jfk.i16", "i16"), ("ecg100.i16", "i16"),
                           ("machine_temp.f32", "f32")):
            cls.tracks += tracks_of(reference, file, kind, WINDOW, THRESHOLD)
        cls.speech = next(track for track in cls.tracks if "speech" in track.name)
        cls.temperature = next(track for track in cls.tracks if "temp" in track.name)
        taps = io.BytesIO()
        np.save(taps, reference.taps())
        cls.daemons = Daemons(configuration(reference, cls.sections), {"taps.npy": taps.getvalue()})

    @classmethod
    def tearDownClass(cls):
        cls.daemons.stop()

    def setUp(self):
        self.chance = random.Random(SEED)

    def assert_near(self, got, expected, about):
        """Within 1e-5 of the peak of each channel."""
        self.assertEqual(got.shape, expected.shape, about)
        error = (np.abs(got - expected) / np.abs(expected).max(0)).max()
        self.assertLessEqual(error, 1e-5, about)

    def compare(self, walk):
        track, got = walk.track, walk.outputs()
        about = f"{track.name} through {walk.session.pipeline.name}, seed {SEED}: "
        lengths = {name: len(values) for name, values in track.expected.items()}
        if not walk.session.pipeline.input.variable:
            taken = walk.session.frames * walk.session.pipeline.input.shape[0]
            self.assertGreater(taken, len(track.samples) - walk.session.pipeline.input.shape[0])
            lengths = {"fir": taken // 8, "score": taken, "flags": taken, "psd": taken // 8192}
        for name, values in got.items():
            expected = track.expected[name][:lengths[name]]
            if name == "flags":
                certain = np.abs(np.abs(track.expected["score"][:lengths[name]]) - THRESHOLD) >= 1e-3
                np.testing.assert_array_equal(values[certain], expected[certain], about + name)
                self.assertEqual(values.shape, expected.shape, about + name)
            elif name == "psd":
                self.assert_near(values.T, expected.T, about + name)  # of each row's peak
            else:
                self.assert_near(values, expected, about + name)

    def test_any_cut_of_every_recording_gives_what_the_whole_gives(self):
        from penstock import Client

        def check(daemon):
            with Client(daemon.url) as first, Client(daemon.url) as second:
                clients, walks = (first, second), []
                for track in self.tracks:
                    names = [track.kind, track.kind, f"{track.kind}_fixed"]
                    names += [f"{track.kind}_long"] if "psd" in track.expected else []
                    walks += [Walk(self.chance.choice(clients), name, track, self.chance) for name in names]
                go(walks, self.chance)
                for walk in walks:
                    self.compare(walk)
        self.daemons.each(self, check)

    def test_taps_of_a_file_are_those_of_the_configuration(self):
        from penstock import Client

        def check(daemon):
            with Client(daemon.url) as client:
                walks = [Walk(client, name, self.speech, self.chance) for name in ("i16", "i16_file")]
                go(walks, self.chance)
                inline, file = (walk.outputs()["fir"] for walk in walks)
            np.testing.assert_array_equal(inline, file)
        self.daemons.each(self, check)

    def test_any_cut_of_iir_is_the_sosfilt_of_the_whole(self):
        from penstock import Client
        expected = self.sosfilt(self.sections, self.speech.samples / 32768)

        def check(daemon):
            with Client(daemon.url) as client:
                walks = [Walk(client, "iir", self.speech, self.chance) for _ in range(2)]
                go(walks, self.chance)
                for walk in walks:
                    self.assert_near(walk.outputs()["iir"], expected, f"seed {SEED}")
        self.daemons.each(self, check)

    def test_any_cut_of_accumulate_is_the_running_mean_and_peak_of_the_whole(self):
        from penstock import Client
        values = self.temperature.samples.ravel()
        whole = len(values) // 64 * 64
        frames = values[:whole].reshape(-1, 64)
        mean, peak = (lambda window: window.mean(0, dtype=float)), (lambda window: window.max(0))
        expected = {"rows": {"mean": trailing(values, 50, mean), "peak": trailing(values, 50, peak)},
                    "frames": {"mean": trailing(frames, 8, mean), "peak": trailing(frames, 8, peak)}}

        def check(daemon):
            with Client(daemon.url) as client:
                walks = [Walk(client, name, self.temperature, self.chance) for name in ("rows", "frames", "rows")]
                go(walks, self.chance)
                for walk in walks:
                    right, got = expected[walk.session.pipeline.name], walk.outputs()
                    if walk.session.pipeline.name == "frames":
                        got = {name: each.reshape(-1, 64) for name, each in got.items()}
                    self.assert_near(got["mean"], right["mean"], f"seed {SEED}")
                    np.testing.assert_array_equal(got["peak"], right["peak"], f"seed {SEED}")
        self.daemons.each(self, check)

    def test_what_follows_a_request_that_expired_or_was_cancelled_is_right(self):
        from penstock import Cancelled, Client, Expired
        expected = self.speech.expected["fir"]

        def go_on(client, session):
            """(first sample, one behind the last, future) of each request."""
            at = 0
            while at < len(self.speech.samples):
                piece = self.speech.samples[at:at + self.chance.randint(1, 600)]
                timeout = self.chance.choice((0.0005, 30, 30, 30))
                try:
                    future = session.submit(piece, timeout=timeout)
                except Expired:
                    continue  # it waited for credit, and has no place in the session
                if self.chance.random() < 0.2:
                    client.cancel(future)
                yield at, at + len(piece), future
                at += len(piece)

        def check(daemon):
            ended = {"results": 0, "others": 0}
            with Client(daemon.url) as client, client.session("i16") as session:
                for begin, end, future in list(go_on(client, session)):
                    try:
                        got = future.result()["fir"]
                    except (Expired, Cancelled):
                        ended["others"] += 1
                        continue
                    ended["results"] += 1
                    right = expected[(begin + 7) // 8:(end + 7) // 8]
                    self.assertEqual(got.shape, right.shape)
                    error = np.abs(got - right).max(initial=0) / np.abs(expected).max()
                    self.assertLessEqual(error, 1e-5, f"samples {begin} to {end}, seed {SEED}")
            self.assertGreater(min(ended.values()), 20, ended)
        self.daemons.each(self, check)

    def test_a_session_that_is_opened_again_begins_anew(self):
        from penstock import Client
        block = self.speech.samples[20000:24000]

        def check(daemon):
            with Client(daemon.url) as client:
                with client.session("i16", name="again") as session:
                    first = session.submit(block).result()["fir"]
                    second = session.submit(block).result()["fir"]
                with client.session("i16", name="again") as session:
                    self.assertEqual(session.frames, 0)
                    anew = session.submit(block).result()["fir"]
            np.testing.assert_array_equal(anew, first)
            self.assertGreater(np.abs(second[:8] - first[:8]).max(), 1e-3, "the second block must have seen the first")
        self.daemons.each(self, check)

    def test_a_pipeline_that_keeps_state_takes_no_frames_without_a_session(self):
        from penstock import Client
        from penstock.wire import Status

        def check(daemon):
            with Client(daemon.url) as client:
                with self.assertRaisesRegex(ValueError, r"pipeline 'i16' keeps state.*use c\.session\('i16'\)"):
                    client.submit("i16", self.speech.samples[:1000])
            with RawClient(daemon.url) as raw:
                header, body = raw.submit("i16", self.speech.samples[:1000])
            self.assertEqual(header.status, Status.SESSION_REQUIRED)
            self.assertEqual(body["reason"],
                             "pipeline 'i16' keeps state: open a session and submit its frames in order")
        self.daemons.each(self, check)

    def test_a_gap_is_refused_with_the_expected_sequence_and_can_be_filled(self):
        from penstock.wire import MessageType, Status

        def check(daemon):
            with RawClient(daemon.url) as raw:
                session = raw.open("i16")
                header, body = raw.submit("i16", self.speech.samples[1000:2000], session, 1)
                self.assertEqual(header.status, Status.SEQUENCE_GAP)
                self.assertEqual((header.session, header.sequence), (session, 0))
                self.assertEqual(body["reason"], "frames 0 to 0 of the session are missing")
                for sequence in (0, 1):
                    samples = self.speech.samples[1000 * sequence:1000 * (sequence + 1)]
                    header, _ = raw.submit("i16", samples, session, sequence)
                    self.assertEqual(header.type, MessageType.RESULT)
                    self.assertEqual((header.session, header.sequence), (session, sequence))
                header, _ = raw.submit("i16", self.speech.samples[:1000], session, 0)
                self.assertEqual(header.status, Status.REPLY_GONE)
        self.daemons.each(self, check)

    def test_a_session_belongs_to_its_client_alone(self):
        from penstock.wire import Status

        def check(daemon):
            with RawClient(daemon.url) as owner, RawClient(daemon.url) as other:
                header, _ = other.submit("i16", self.speech.samples[:1000], owner.open("i16"), 0)
            self.assertEqual(header.status, Status.SESSION_LOST)
        self.daemons.each(self, check)

    def test_a_session_is_lost_when_the_daemon_restarts(self):
        from penstock import Client, SessionLost

        def check(daemon):
            with Client(daemon.url, retry_after=0.2) as client:
                session = client.session("i16")
                before = session.submit(self.speech.samples[:4000]).result()["fir"]
                daemon.end(signal.SIGKILL)
                daemon.start()
                with self.assertRaises(SessionLost):
                    session.submit(self.speech.samples[4000:8000]).result()
                with self.assertRaises(SessionLost):
                    session.submit(self.speech.samples[8000:12000])
                with client.session("i16") as another:
                    after = another.submit(self.speech.samples[:4000]).result()["fir"]
            np.testing.assert_array_equal(after, before)
        self.daemons.each(self, check)


if __name__ == "__main__":
    unittest.main()
