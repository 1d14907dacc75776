"""Output of the demo: numbered steps with their times."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table


class Stage:
    """Prints steps as they happen, and a summary of their times at the end."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._times: list[tuple[str, float]] = []

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        number = len(self._times) + 1
        self.console.print()
        self.console.print(Rule(f"[bold]{number}. {title}", align="left", style="cyan"))
        started = perf_counter()
        yield
        took = perf_counter() - started
        self._times.append((title, took))
        self.console.print(f"[green]✓[/] [dim]{took:.1f} s[/]")

    def say(self, text: str) -> None:
        self.console.print(Padding(text, (0, 0, 0, 2)))

    def show(self, table: Table) -> None:
        self.console.print(Padding(table, (0, 0, 0, 2)))

    def summary(self) -> float:
        """Prints how long each step took; the sum in seconds."""
        total = sum(took for _, took in self._times)
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(style="bold")
        table.add_column(justify="right")
        table.add_column()
        for title, took in self._times:
            bar = "━" * max(1, round(30 * took / max(total, 1e-9)))
            table.add_row(title, f"{took:.1f} s", f"[cyan]{bar}[/]")
        table.add_row("[bold]all", f"[bold]{total:.1f} s", "")
        self.console.print()
        self.console.print(Rule("[bold]Times", align="left", style="cyan"))
        self.show(table)
        return total
