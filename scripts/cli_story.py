"""Story of docs/cli.md: commands in their order, with a few words between them.

Everything happens in one folder, one command after the other, so that each finds what the ones
before it made. A line that begins with `$ frazil` is run; its output follows it in the page.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """Part of the page: a heading, text, and lines to type. `spark` if they start a JVM."""

    title: str
    text: str
    lines: tuple[str, ...]
    spark: bool = False


# Numbers to begin with: three days at four places, in °C.
FILES = {
    "day1.csv": "11.5,12.0,9.5,8.0\n",
    "day2.csv": "12.5,13.0,9.0,7.5\n",
    "day3.csv": "14.0,13.5,10.0,8.5\n",
    "places.csv": "10,20,30,40\n",
}

STORY: tuple[Part, ...] = (
    Part(
        "First steps",
        "A repository is a folder, or a prefix of a bucket. A new one has a single empty commit.",
        ("frazil init weather", "frazil status weather", "frazil log weather"),
    ),
    Part(
        "Values in",
        "`write` creates an array from a file of numbers, or extends one, as one commit."
        " For NetCDF, GRIB, TIFF and other formats there is [`ingest`](spark-ingest.md).",
        ("frazil write weather /t2m day1.csv --dims day,place --chunks day=1 -m 'the first day'",),
    ),
    Part(
        "Values out",
        "`ls` lists a group, `tree` shows everything below it, `head` describes an array and shows"
        " its first values, `cat` prints values, `read` writes a file.",
        (
            "frazil tree weather",
            "frazil ls weather",
            "frazil head weather /t2m",
            "frazil cat weather /t2m --isel place=0:2",
            "frazil read weather /t2m -o t2m.csv",
        ),
    ),
    Part(
        "History",
        "Commits have ids, branches and tags have names; `main~1` is the parent of `main`."
        " Branches move, tags do not.",
        (
            "frazil tag create weather v1",
            "frazil branch create weather fix",
            "frazil write weather /t2m day2.csv --append day -m 'the second day'",
            "frazil write weather /place places.csv --dims place --branch fix -m 'where it was'",
            "frazil log weather --graph",
            "frazil diff weather v1 main",
            "frazil diff weather fix main",
            "frazil show weather fix",
        ),
    ),
    Part(
        "Merging",
        "`merge`, `cherry-pick` and `revert` work chunk by chunk. Conflicts are listed, and then"
        " nothing is changed, unless `--on-chunk-conflict` says which side to take: `ours` is the"
        " branch being changed, `theirs` the incoming one, as in git. `--dry-run` looks first.",
        (
            "frazil merge weather fix --dry-run",
            "frazil merge weather fix",
            "frazil log weather --graph",
            "frazil revert weather main~1 --dry-run",
        ),
    ),
    Part(
        "Confirmation",
        "Commands that remove history ask first; where there is no terminal, pass `--yes`.",
        (
            "frazil reset weather v1",
            "frazil reset weather main~1 --dry-run",
            "frazil tag delete weather v1 --yes",
        ),
    ),
    Part(
        "For programs",
        "Every command has `--json`, for errors too, and an [exit code](#exit-codes).",
        (
            "frazil branch list weather --json",
            "frazil ls weather --json",
            "frazil log weather --branch mian --json",
        ),
    ),
    Part(
        "Named repositories",
        "`repo add` gives a location a name; the default one need not be named at all.",
        (
            "frazil repo add here weather --default",
            "frazil status here",
            "frazil branch list",
        ),
    ),
    Part(
        "Settings",
        "A repository stores its configuration for everyone who opens it.",
        (
            "frazil config get weather inline_chunk_threshold_bytes",
            "frazil config set weather inline_chunk_threshold_bytes 64",
            "frazil metadata set weather owner 'the weather office'",
            "frazil flags list weather",
            "frazil status weather --set read-only --reason 'moving to a bucket'",
            "frazil branch create weather late",
            "frazil status weather --set online",
        ),
    ),
    Part(
        "Maintenance",
        "Measure storage by branch and array, expire old history, delete unreachable objects, find"
        " damage. More in [maintenance.md](maintenance.md) and [verify.md](verify.md).",
        (
            "frazil stats weather",
            "frazil expire weather --older-than 90d --dry-run",
            "frazil gc weather --dry-run",
            "frazil verify weather",
            "frazil ops weather -n 5",
        ),
    ),
    Part(
        "Copies",
        "A clone has the whole history; a second run copies only what is new. A bundle is a single"
        " file. More in [migration.md](migration.md).",
        (
            "frazil clone weather copy",
            "frazil write weather /t2m day3.csv --append day -m 'the third day'",
            "frazil clone weather copy",
            "frazil export weather weather.bundle",
            "frazil import weather.bundle elsewhere",
        ),
    ),
    Part(
        "What is in the files",
        "`dump` shows any metadata file as JSON; see the [tour of the format](format.md).",
        ("frazil dump weather/repo | head -n 22",),
    ),
    Part(
        "SQL",
        "The repository is a table, with a row for each value and a column for each dimension and"
        " array. `--explain` shows how many chunks a query would read.",
        ('frazil sql weather "SELECT max(t2m) FROM repo WHERE day >= 1" --explain',),
        spark=True,
    ),
    Part(
        "",
        "An embedded Spark runs it. Without a query, `sql` shows a prompt, or reads statements from"
        " standard input. Groups are tables of their own.",
        ('frazil sql weather "SELECT place, max(t2m) AS t FROM repo GROUP BY place ORDER BY t"',),
        spark=True,
    ),
    Part(
        "When it goes wrong",
        "One line says what is wrong, and a second one, if there is one, what to do. `--debug`"
        " shows the full traceback.",
        (
            "frazil log wether",
            "frazil cat weather /t2m --isel plaec=0",
            "frazil head weather /t2n",
            "frazil show weather mian",
            "frazil lgo weather",
        ),
    ),
)
