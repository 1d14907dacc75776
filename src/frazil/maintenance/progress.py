"""Progress callbacks of long-running work."""

from collections.abc import Callable

type Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is; 0 if unknown."""
