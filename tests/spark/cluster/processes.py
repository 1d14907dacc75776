"""Processes that die by SIGKILL, with all that they started."""

import signal
from contextlib import suppress

import psutil

GONE_S = 20.0


def tree_of(pid: int) -> list[psutil.Process]:
    """The process first; none if it has ended."""
    try:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def kill_tree(pid: int) -> None:
    """They are stopped first, so that none can react to the end of another."""
    tree = tree_of(pid)
    for wish in (signal.SIGSTOP, signal.SIGKILL):
        for process in tree:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(wish)
