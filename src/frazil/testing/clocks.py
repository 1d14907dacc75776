"""Clocks that are wrong, to be given where a `Clock` is asked for."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from frazil.clock import Clock, system_clock


@dataclass(frozen=True, slots=True)
class SkewedClock:
    """Another clock, so many seconds ahead; behind, if negative."""

    ahead_s: float
    clock: Clock = system_clock

    def __call__(self) -> int:
        return self.clock() + int(self.ahead_s * 1e6)


class LeapingClock:
    """A clock that is set while it runs: each reading leaps by the next of some seconds.

    After the last leap it starts over, so that `LeapingClock([0, -60])` goes back a minute at
    every second reading.
    """

    def __init__(self, leaps_s: Sequence[float], clock: Clock = system_clock) -> None:
        self._leaps_us = [int(leap * 1e6) for leap in leaps_s]
        self._clock = clock
        self._readings = 0
        self._lock = threading.Lock()

    def __call__(self) -> int:
        with self._lock:
            leap = self._leaps_us[self._readings % len(self._leaps_us)]
            self._readings += 1
        return self._clock() + leap
