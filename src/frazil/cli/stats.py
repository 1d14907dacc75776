"""`frazil stats`: what is stored, and for whom."""

from frazil.cli.options import AsJson, Repo


def stats(repo: Repo, *, as_json: AsJson = False) -> None:
    """Show how many bytes chunks take: in all, for each branch, tag and array.

    What one has alone is what could be freed if it were deleted.
    """
    from dataclasses import asdict

    from frazil.cli.output import print_json
    from frazil.cli.places import open_source
    from frazil.cli.views.collecting import print_stats
    from frazil.cli.watching import progress_bar
    from frazil.maintenance.stats import storage_stats
    from frazil.maintenance.summaries import StorageStats

    with progress_bar() as tell:
        found = StorageStats.of(storage_stats(open_source(repo), progress=tell))
    if as_json:
        print_json(asdict(found))
    else:
        print_stats(found)
