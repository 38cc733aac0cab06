"""Which samples of a sender's clock a request has, and the outputs of its result."""
from __future__ import annotations

import operator
from typing import Any, Dict, Mapping, Optional, Sequence

from . import wire
from .wire import SampleAccount, SampleFlag, TimeQuality

_LIMITS = {"index": (-1 << 63, 1 << 63), "time_ns": (-1 << 63, 1 << 63), "lost_before": (0, 1 << 64),
           "epoch": (0, 1 << 32), "filled": (0, 1 << 32)}


class Account:
    """Which samples of its sender's clock a result is of: what `submit` was told, and where the outputs stand.

        r = c.submit("stations", samples, index=48_000, time_ns=time.time_ns()).result()
        r.account.index_of("audio")  # of the sample at which its first element stands
    """

    __slots__ = ("_said", "_indices")

    def __init__(self, said: SampleAccount, indices: Mapping[str, int]) -> None:
        self._said = said
        self._indices: Dict[str, int] = dict(indices)

    @property
    def index(self) -> Optional[int]:
        """The number of the request's first sample; None where its sender did not say it."""
        return self._said.index if self._said.flags & SampleFlag.INDEX_KNOWN else None

    @property
    def time_ns(self) -> Optional[int]:
        """The time of that sample, in nanoseconds since 1970, UTC; None where there is none."""
        return self._said.time_ns if self._said.time_quality != TimeQuality.NONE else None

    @property
    def time_quality(self) -> TimeQuality:
        """Where that time comes from."""
        return TimeQuality(self._said.time_quality)

    @property
    def lost_before(self) -> int:
        """Samples that are known to be lost directly before it."""
        return self._said.lost_before

    @property
    def epoch(self) -> int:
        """Of the sender's clock: indices of different epochs do not compare."""
        return self._said.epoch

    @property
    def filled(self) -> int:
        """Samples that were filled in, of those from the earliest at which an output stands to the request's last."""
        return self._said.filled

    @property
    def flags(self) -> SampleFlag:
        """What else is known of the samples."""
        return SampleFlag(self._said.flags)

    def index_of(self, name: Optional[str] = None) -> int:
        """The index, in the sender's numbers, of the sample at which an output's first element stands, or the only
        output's; without `index`, counted from the request's first sample. The next element of its first dimension,
        where that is time, stands `steps` / `indices` (of its description) samples further. It can lie before the
        request's own samples. Raises KeyError for an output that the result does not have, ValueError where a name is
        needed."""
        if name is None:
            if len(self._indices) != 1:
                raise ValueError(f"the result has {len(self._indices)} outputs: {', '.join(self._indices)}")
            return next(iter(self._indices.values()))
        try:
            return self._indices[name]
        except KeyError:
            raise KeyError(f"the result has no output {name!r}; it has {', '.join(self._indices)}") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Account) and (self._said, self._indices) == (other._said, other._indices)

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value}" for name, value in self._said._asdict().items() if value)
        return f"Account({said}, of_outputs={self._indices})"


def account_of(header: wire.Header, head: wire.Buffer, outputs: Sequence[str]) -> Optional[Account]:
    """The account of a result; None where the header has none. Raises DecodeError."""
    said = wire.decode_account(head, header)
    if said is None:
        return None
    indices = wire.output_indices(head, header)
    if len(indices) != len(outputs):
        raise wire.DecodeError("bad_result", header.request_id)
    return Account(said, dict(zip(outputs, indices)))


def account_to_send(index: Optional[int] = None, time_ns: Optional[int] = None, epoch: int = 0, lost_before: int = 0,
                    filled: int = 0, account: Optional[SampleAccount] = None) -> Optional[SampleAccount]:
    """What a request says of its samples; None where nothing is given. `account`: all of it. Raises TypeError and
    ValueError for what no header can hold."""
    given = {"index": index, "time_ns": time_ns, "epoch": epoch, "lost_before": lost_before, "filled": filled}
    if account is not None:
        if any(value not in (None, 0) for value in given.values()):
            raise ValueError("an account has all that is known of the samples: give no other beside it")
        given = account._asdict()
        quality, flags = TimeQuality(given.pop("time_quality")), SampleFlag(given.pop("flags"))
    elif index is None and time_ns is None and not (epoch or lost_before or filled):
        return None
    else:
        quality = TimeQuality.NONE if time_ns is None else TimeQuality.SOURCE
        flags = SampleFlag(0)
        flags |= SampleFlag(0) if index is None else SampleFlag.INDEX_KNOWN
        flags |= SampleFlag.FILLED if filled else SampleFlag(0)
    return SampleAccount(**{name: _checked(name, value) for name, value in given.items()}, time_quality=int(quality),
                         flags=int(flags))


def _checked(name: str, value: Any) -> int:
    least, limit = _LIMITS[name]
    number = 0 if value is None else operator.index(value)
    if not least <= number < limit:
        raise ValueError(f"{name} is from {least} to {limit - 1}, not {number}")
    return number
