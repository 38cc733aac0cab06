"""Recordings on their way through sessions, cut into requests at random."""

from recordings import RECORDINGS, np

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
