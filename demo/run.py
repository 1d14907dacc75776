"""Weather files become a versioned repository, on Spark. `make demo` runs this.

Makes a week of hourly NetCDF4 files, ingests them as one commit, queries them with SQL, appends a
day as a second commit, compares and travels between the two, reads the result with xarray and with
the reference implementation `icechunk`, and draws a picture.
"""

import argparse
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from pyspark.sql import SparkSession
from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table

import frazil.spark
from demo.make_weather import EPOCH, make_days
from demo.plot import draw
from demo.stage import Stage
from frazil.api import Repository, local_filesystem_storage
from frazil.spark import IngestResult

GROUP = "weather"
PLACE = (40.0, 20.0)
MEGABYTE = 1_000_000


QUESTION = """\
SELECT date(time) AS day,
       round(avg(t2m) - 273.15, 1) AS mean_c,
       round(max(t2m) - 273.15, 1) AS max_c,
       round(max(sqrt(u10 * u10 + v10 * v10)), 1) AS max_wind_ms,
       round(avg(tp) * 24 * 1000, 1) AS rain_mm
FROM weather
WHERE time >= '{start}'
  AND latitude BETWEEN 25 AND 55
  AND longitude BETWEEN 0 AND 45
GROUP BY day ORDER BY day"""


@dataclass(frozen=True)
class Size:
    """Amount of weather."""

    days: int
    lats: int
    lons: int
    chunks: dict[str, int]


FULL = Size(8, 180, 360, {"time": 24, "latitude": 60, "longitude": 90})
SMALL = Size(2, 18, 36, {"time": 24, "latitude": 6, "longitude": 9})


@dataclass(frozen=True)
class Demo:
    stage: Stage
    size: Size
    output: Path

    @property
    def files(self) -> Path:
        return self.output / "files"

    @property
    def repository(self) -> Path:
        return self.output / "repository"

    def run(self) -> None:
        stage = self.stage
        shutil.rmtree(self.output, ignore_errors=True)
        self.output.mkdir(parents=True)
        days = range(self.size.days + 1)
        with stage.step("Make hourly weather files"):
            *week, extra = self.make_files(days)
        with stage.step("Start Spark inside this process"):
            spark = frazil.spark.session(
                app_name="frazil demo", log_path=self.output / "spark.log", short_lived=True
            )
            stage.say(f"Spark {spark.version}, {spark.sparkContext.master}")
        with stage.step(f"Ingest {len(week)} files as one commit"):
            repo = Repository.create(local_filesystem_storage(str(self.repository)))
            first = self.ingest(spark, repo, week, "create")
        with stage.step("Ask a question in SQL"):
            self.query(spark)
        with stage.step("Append one more day as a second commit"):
            second = self.ingest(spark, repo, [extra], "append")
        with stage.step("Look at the history"):
            self.history(repo, first, second)
        with stage.step("Travel back in time"):
            old, new = self.versions(repo, first, second)
        with stage.step("Read it with xarray and with icechunk"):
            self.compare(new, week, extra)
        with stage.step("Draw a picture"):
            picture = self.output / "weather.png"
            versions = (first.snapshot_id, second.snapshot_id)
            draw(new, old, picture, place=PLACE, versions=versions)
            stage.say(f"[bold]{shown(picture)}[/]")
        spark.stop()

    def make_files(self, days: range) -> list[Path]:
        size = self.size
        processes = os.cpu_count() or 1 if size is FULL else 1  # starting one takes a second
        paths = make_days(self.files, days, lats=size.lats, lons=size.lons, processes=processes)
        raw = len(paths) * 24 * size.lats * size.lons * 4 * 5 / MEGABYTE
        stored = sum(path.stat().st_size for path in paths) / MEGABYTE
        self.stage.say(
            f"{len(paths)} days in [bold]{shown(self.files)}[/]: temperature, pressure, wind and"
            f" rain on {size.lats} × {size.lons} points,"
            f" {raw:.1f} MB of values in {stored:.1f} MB of compressed NetCDF4"
        )
        return paths

    def ingest(
        self, spark: SparkSession, repo: Repository, paths: list[Path], mode: str
    ) -> IngestResult:
        append = mode == "append"
        result = frazil.spark.ingest(
            spark,
            paths,
            repo,
            group=GROUP,
            concat_dim="time",
            chunks=None if append else self.size.chunks,
            mode=mode,
            message=f"{'Add' if append else 'Ingest'} {len(paths)} day{'s' * (len(paths) > 1)}",
            idempotency_key=f"demo/{paths[0].stem}",
        )
        self.stage.say(
            f"{result.chunks} chunks, {result.bytes / MEGABYTE:.1f} MB stored by the executors,"
            f" commit [yellow]{result.snapshot_id}[/]"
        )
        return result

    def query(self, spark: SparkSession) -> None:
        question = QUESTION.format(start=np.datetime_as_string(day_of(self.size.days - 2)))
        self.stage.console.print(Padding(Syntax(question, "sql", theme="ansi_dark"), (0, 0, 1, 2)))
        table = {"path": str(self.repository), "group": GROUP}
        plan = frazil.spark.plan_sql(spark, question, {"weather": table})
        rows = plan.run(spark).collect()
        answer = Table(box=None, padding=(0, 2, 0, 0))
        for name in rows[0].asDict():
            answer.add_column(name, justify="right")
        for row in rows:
            answer.add_row(*(str(value) for value in row))
        self.stage.show(answer)
        self.stage.say(
            "\nThe predicate on coordinates rules out most of the data:"
            f" [bold]read {plan.chunks_read} of {plan.chunks_total} chunks[/]"
        )
        require(0 < plan.chunks_read < plan.chunks_total, "nothing was pruned")
        require(len(rows) == 2, "the query found other days")

    def history(self, repo: Repository, first: IngestResult, second: IngestResult) -> None:
        log = Table(title="log of main", title_justify="left", box=None, padding=(0, 2, 0, 0))
        for heading in ("snapshot", "written", "message", "made by"):
            log.add_column(heading, no_wrap=True)
        for info in repo.ancestry(branch="main"):
            note = info.metadata.get("frazil", {})
            made_by = f"job {note['job'][:8]}" if note else ""
            written = f"{info.written_at:%H:%M:%S}"
            log.add_row(f"[yellow]{info.id}[/]", written, info.message, f"[dim]{made_by}[/]")
        self.stage.show(log)
        diff = repo.diff(from_snapshot_id=first.snapshot_id, to_snapshot_id=second.snapshot_id)
        table = Table(
            title="\nchanged by the append", title_justify="left", box=None, padding=(0, 2, 0, 0)
        )
        table.add_column("array")
        table.add_column("metadata")
        table.add_column("chunks", justify="right")
        changed = set(diff.updated_arrays) | set(diff.updated_chunks)
        for path in sorted(changed):
            resized = "resized" if path in diff.updated_arrays else ""
            table.add_row(path, resized, str(len(list(diff.updated_chunks.get(path, [])))))
        self.stage.show(table)

    def versions(
        self, repo: Repository, first: IngestResult, second: IngestResult
    ) -> tuple[xr.Dataset, xr.Dataset]:
        """The data set before and after the append."""
        old, new = (
            open_dataset(repo.readonly_session(snapshot_id=result.snapshot_id).store)
            for result in (first, second)
        )
        for name, data in (("before", old), ("after", new)):
            times = data.time.values[[0, -1]]
            first_hour, last_hour = (np.datetime_as_string(t, unit="m") for t in times)
            self.stage.say(f"{name}: {data.sizes['time']} hours, {first_hour} to {last_hour}")
        require(old.equals(new.isel(time=slice(0, old.sizes["time"]))), "the past has changed")
        self.stage.say("every value of the old version is unchanged in the new one")
        return old, new

    def compare(self, new: xr.Dataset, week: list[Path], extra: Path) -> None:
        os.environ["ICECHUNK_NO_LOGS"] = "1"  # it warns about local folders
        import icechunk  # noqa: PLC0415 -- the reference, which frazil itself never needs

        storage = icechunk.local_filesystem_storage(str(self.repository))
        session = icechunk.Repository.open(storage).readonly_session("main")
        theirs = open_dataset(session.store)
        require(new.load().identical(theirs.load()), "icechunk reads something else")
        self.stage.say(
            f"icechunk {icechunk.__version__} and frazil, both through xarray:"
            f" identical, {new.nbytes / MEGABYTE:.0f} MB of values"
        )
        files = [xr.open_dataset(path, engine="h5netcdf") for path in [*week, extra]]
        wanted = xr.concat(
            files, "time", data_vars="minimal", coords="minimal", compat="override", join="exact"
        )
        require(new.identical(wanted), "the files say something else")
        self.stage.say(f"xarray's own concatenation of the {len(files)} files: identical")


def day_of(number: int) -> np.datetime64:
    return np.datetime64(EPOCH, "D") + np.timedelta64(number, "D")


def open_dataset(store: object) -> xr.Dataset:
    data: xr.Dataset = xr.open_zarr(store, group=GROUP, consolidated=False, chunks=None)
    return data


def require(fact: bool, otherwise: str) -> None:  # noqa: FBT001 -- reads as a sentence
    if not fact:
        raise SystemExit(f"demo failed: {otherwise}")


def shown(path: Path) -> str:
    """Relative to here if it is below."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    parser.add_argument("--small", action="store_true", help="a few seconds' worth of data")
    chosen = parser.parse_args(arguments)
    console = Console(highlight=False)
    intro = "Weather files → one Spark job → one atomic, versioned commit"
    console.print(Panel(intro, title="frazil", title_align="left", border_style="cyan"))
    stage = Stage(console)
    size = SMALL if chosen.small else FULL
    Demo(stage, size, chosen.output.absolute()).run()
    stage.summary()


if __name__ == "__main__":
    main()
