"""Progress of what runs in this process, as a bar when somebody is looking."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

type Tell = Callable[[str, int, int], None]


@contextmanager
def progress_bar() -> Iterator[Tell | None]:
    """None if standard error is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        tasks = {}

        def tell(doing: str, done: int, total: int) -> None:
            if doing not in tasks:
                tasks[doing] = bar.add_task(doing, total=total or None)
            bar.update(tasks[doing], completed=done, total=total or None)

        yield tell
