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
        "A repository is a folder, or a prefix of a bucket. Nothing is in it but one empty commit.",
        ("frazil init weather", "frazil status weather", "frazil log weather"),
    ),
    Part(
        "Values in",
        "`write` makes an array of a file of numbers, or extends one; each time that is one commit."
        " Files of NetCDF, GRIB, TIFF and others are for [`ingest`](spark-ingest.md).",
        ("frazil write weather /t2m day1.csv --dims day,place --chunks day=1 -m 'the first day'",),
    ),
    Part(
        "Values out",
        "`ls` lists a group, `tree` shows all of them, `head` says what an array is and how it"
        " begins, `cat` prints values, `read` writes a file.",
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
        "Commits have ids, branches and tags have names; `main~1` is the parent of `main`. A tag"
        " is for good, a branch moves.",
        (
            "frazil tag create weather v1",
            "frazil branch create weather fix",
            "frazil write weather /t2m day2.csv --append day -m 'the second day'",
            "frazil write weather /place places.csv --dims place --branch fix -m 'where it was'",
            "frazil log weather --graph",
            "frazil diff weather v1 main",
            "frazil show weather fix",
        ),
    ),
    Part(
        "Branches come together",
        "`merge`, `cherry-pick` and `revert` make commits of other commits, chunk by chunk; what"
        " contradicts is told, and then nothing changes. `--dry-run` looks first.",
        (
            "frazil merge weather fix --dry-run",
            "frazil merge weather fix",
            "frazil tree weather",
            "frazil revert weather main~1 --dry-run",
        ),
    ),
    Part(
        "What is dangerous asks",
        "At a terminal it is a question; elsewhere `--yes` has to be there.",
        (
            "frazil reset weather v1",
            "frazil reset weather main~1 --dry-run",
            "frazil tag delete weather v1 --yes",
        ),
    ),
    Part(
        "For programs",
        "`--json` is everywhere, and the [exit code](#exit-codes) says how it went.",
        ("frazil branch list weather --json", "frazil ls weather --json"),
    ),
    Part(
        "Settings",
        "Configuration that a repository stores for everyone who opens it.",
        (
            "frazil config get weather inline_chunk_threshold_bytes",
            "frazil config set weather inline_chunk_threshold_bytes 64",
            "frazil metadata set weather owner 'the weather office'",
            "frazil flags list weather",
            "frazil status weather --set read-only --reason 'moving house'",
            "frazil branch create weather late",
            "frazil status weather --set online",
        ),
    ),
    Part(
        "Upkeep",
        "Bytes that are stored, by branch and array; old history; unreachable objects; damage."
        " More in [maintenance.md](maintenance.md) and [verify.md](verify.md).",
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
        "A clone has all of the history; a second run brings only what is new. A bundle is one"
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
        "The repository is a table: a row for each value, a column for each dimension and array."
        " `--explain` says how many chunks a query would read, and reads none.",
        ('frazil sql weather "SELECT max(t2m) FROM repo WHERE day >= 1" --explain',),
        spark=True,
    ),
    Part(
        "",
        "An embedded Spark plans and runs it. Without a query there is a prompt, or"
        " statements are read from standard input; groups are tables of their own.",
        ('frazil sql weather "SELECT place, max(t2m) AS t FROM repo GROUP BY place ORDER BY t"',),
        spark=True,
    ),
    Part(
        "When it goes wrong",
        "One line says what is wrong, another perhaps what to do. `--debug` shows the whole trace,"
        " and may stand anywhere.",
        (
            "frazil log wether",
            "frazil cat weather /t2m --isel plaec=0",
            "frazil diff weather v1 main",
            "frazil lgo weather",
        ),
    ),
)
