"""How much memory to share with the daemon."""
from __future__ import annotations

_LEAST_BYTES = 64 << 10


class ArenaSize:
    """How much to ask for: little at first, more once that has proved too little, and less where there is no room for
    so much. What one client does not need is there for others. Thread: one at a time."""

    def __init__(self, first: int, need: int, held: int) -> None:
        """A request of `need` bytes has found no room in the `held` bytes that there are; 0 for either: none. first:
        what to begin with, where that is enough for two requests."""
        self._first = first
        self._need = need
        self._held = held
        self._divisor = 1
        self._may_be_less = False

    def next(self, most: int) -> int:
        """What to ask for, where there may be `most`; 0 when nothing would be won."""
        if self._held > 0 and (most <= self._held or most < self._need):
            return 0
        wanted = min(most, max(self._first, 2 * max(self._need, self._held)))
        least = min(most, max(self._need, self._held + 1, _LEAST_BYTES))
        asked = max(wanted // self._divisor, least)
        self._may_be_less = asked > least
        return asked

    def halve(self) -> bool:
        """There was no room for that. Whether less may do."""
        self._divisor *= 2
        return self._may_be_less
