"""Which commands there are, where they are, and what each does in a few words.

A command is loaded when it runs or shows its help: a list of them needs names and words only.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Listed:
    """A function of `frazil.cli.<module>`, or the group of commands that is there (`app`)."""

    module: str
    function: str
    summary: str  # of some 57 letters: what a line has room for


def _plain(name: str, summary: str) -> tuple[str, Listed]:
    """In the module, and by the name, that its own name suggests."""
    module = name.replace("-", "_")
    return name, Listed(module, module, summary)


COMMANDS: dict[str, Listed] = dict(
    (
        _plain("init", "Make an empty repository."),
        _plain("status", "What a repository is; whether it takes changes."),
        _plain("ls", "List what is in a group."),
        _plain("tree", "Show all groups and arrays."),
        _plain("head", "What an array is, and its first values."),
        _plain("cat", "Print the values of an array."),
        _plain("read", "Write an array, or a part of it, to a file."),
        _plain("write", "Make an array of a file, or extend one."),
        _plain("log", "Show the history of a branch, or draw that of all."),
        _plain("show", "Show one commit: message, metadata, changes."),
        _plain("diff", "Show what changed between two commits."),
        _plain("sql", "Query with Spark SQL: once, or at a prompt."),
        _plain("ingest", "Turn NetCDF, Zarr, GRIB, TIFF, Parquet into a commit."),
        _plain("import-kerchunk", "Make virtual arrays of kerchunk references."),
        _plain("rechunk", "Write arrays with other chunks, codecs or shards."),
        _plain("reduce", "Mean, sum, maximum and others over dimensions."),
        _plain("map-blocks", "Apply a function of your own to blocks of arrays."),
        _plain("export", "To Zarr, Parquet, NetCDF, or one bundle file."),
        _plain("clone", "Copy a repository, or bring a copy up to date."),
        ("import", Listed("import_bundle", "import_", "Bring a bundle into a repository.")),
        _plain("migrate", "Bring an older repository to version 2."),
        ("branch", Listed("branch", "app", "List, create and delete branches.")),
        ("tag", Listed("tag", "app", "List, create and delete tags.")),
        _plain("merge", "Bring what was done on one branch to another."),
        _plain("cherry-pick", "Do on a branch what a commit did elsewhere."),
        _plain("revert", "Undo what a commit did, by a new commit."),
        _plain("reset", "Put a branch at another commit."),
        _plain("squash", "Make a range of history one commit."),
        _plain("ops", "Everything that was ever done to a repository."),
        _plain("stats", "How many bytes are stored, and for whom."),
        _plain("expire", "Take old snapshots out of history."),
        _plain("gc", "Delete files that no branch or tag leads to."),
        _plain("verify", "Check every file; repair what can be."),
        _plain("pack", "Put small chunk objects together."),
        _plain("unpack", "Give packed chunks objects of their own again."),
        _plain("rewrite-manifests", "Cut manifests anew."),
        _plain("purge", "Take a path, or messages, out of all history."),
        ("config", Listed("config", "app", "Show and change the settings a repository stores.")),
        ("metadata", Listed("metadata", "app", "Show and change a repository's metadata.")),
        ("flags", Listed("flags", "app", "Show and switch what may be done to a repository.")),
        _plain("serve", "Look at a repository in the browser."),
        _plain("dump", "Show any metadata file as JSON."),
        _plain("doctor", "Check Java, Spark, packages and storage."),
        _plain("completion", "Print what makes a shell complete commands."),
    )
)
WITH_TARGET = {"clone", "migrate"}  # to a place that may be reached in another way
WITHOUT_PLACE = {"completion"}
