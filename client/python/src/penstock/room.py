"""Which parts of an arena are in use."""
from __future__ import annotations

import bisect
import collections
import threading
from typing import Deque, List, Optional, Tuple

from .wire import PLACE_ALIGNMENT, room_for


class Room:
    """Gives out ranges of so many bytes, at multiples of PLACE_ALIGNMENT: the first gap that is large enough. Gaps that
    touch are one. Every method may be called from any thread."""

    def __init__(self, nbytes: int) -> None:
        self._lock = threading.Lock()
        self._whole = (0, nbytes)
        self._gaps: List[Tuple[int, int]] = [self._whole]  # start and end, in order; no two touch
        self._returned: Deque[Tuple[int, int]] = collections.deque()
        self._closed = False

    def take(self, nbytes: int) -> Optional[int]:
        """Where a range of that size begins; None when there is no gap for it, and once it is closed."""
        size = max(room_for(nbytes), PLACE_ALIGNMENT)
        with self._lock:
            if self._closed:
                return None
            self._take_back()
            for index, (start, end) in enumerate(self._gaps):
                if end - start >= size:
                    self._gaps[index:index + 1] = [(start + size, end)] if end - start > size else []
                    return start
        return None

    def give_back(self, start: int, nbytes: int) -> None:
        """Takes a range back that `take` gave for that size. It takes no lock: a garbage collection may call it in the
        middle of anything, also of `take`."""
        self._returned.append((start, start + max(room_for(nbytes), PLACE_ALIGNMENT)))

    def close(self) -> None:
        """Nothing is given out any more, whatever comes back."""
        with self._lock:
            self._closed = True

    @property
    def is_empty(self) -> bool:
        """Whether all of it is free."""
        return self.gaps == [self._whole]

    @property
    def gaps(self) -> List[Tuple[int, int]]:
        """What is free now: start and end of each gap, in order."""
        with self._lock:
            self._take_back()
            return list(self._gaps)

    def _take_back(self) -> None:
        while self._returned:
            start, end = self._returned.popleft()
            after = bisect.bisect(self._gaps, (start, end))
            before = after
            if after < len(self._gaps) and self._gaps[after][0] == end:
                end, after = self._gaps[after][1], after + 1
            if before > 0 and self._gaps[before - 1][1] == start:
                start, before = self._gaps[before - 1][0], before - 1
            self._gaps[before:after] = [(start, end)]
