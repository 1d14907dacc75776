"""What a person would type: shown at the end of each command's help.

Here rather than beside the commands, so that they read as one story: a repository of weather data.
"""

EXAMPLES: dict[str, tuple[str, ...]] = {
    # first steps
    "init": ("frazil init weather", "frazil init s3://bucket/weather --region eu-west-1"),
    "status": (
        "frazil status weather",
        "frazil status weather --set read-only --reason 'moving house'",
    ),
    "ls": ("frazil ls weather", "frazil ls weather /model --tag v1"),
    "tree": ("frazil tree weather", "frazil tree s3://bucket/weather --anonymous --depth 2"),
    "head": ("frazil head weather /model/t2m",),
    "cat": (
        "frazil cat weather /model/t2m --isel time=0",
        "frazil cat weather /model/t2m --sel time=2024-01-01..2024-01-02 --sel lat=60",
    ),
    "read": (
        "frazil read weather /model/t2m -o t2m.npy",
        "frazil read weather /model/t2m --sel lat=40..60 -o rows.parquet",
    ),
    "write": (
        "frazil write weather /model/t2m t2m.npy --dims time,lat --chunks time=24",
        "frazil write weather /model/t2m more.npy --append time -m 'February'",
    ),
    "log": ("frazil log weather -n 10", "frazil log weather --graph"),
    "show": ("frazil show weather", "frazil show weather main~1 --json"),
    "diff": ("frazil diff weather v1 main", "frazil diff weather main~1 main --json"),
    "sql": (
        'frazil sql weather "SELECT avg(t2m) FROM repo WHERE lat > 60"',
        "frazil sql weather                # a prompt: statements end with ;",
    ),
    # files in, arrays out
    "ingest": (
        "frazil ingest 'data/*.nc' weather --concat-dim time --chunks time=24 -m January",
        "frazil ingest 's3://archive/*.nc' weather --concat-dim time --virtual",
    ),
    "import-kerchunk": ("frazil import-kerchunk weather refs.json --files-in /data",),
    "rechunk": ("frazil rechunk weather /model/t2m --chunks time=1000,lat=10",),
    "reduce": ("frazil reduce weather t2m --over time --how mean --group /model",),
    "map-blocks": (
        "frazil map-blocks weather steps.py:to_celsius /model/t2m --output /model/t2m_c=float32",
    ),
    "export": (
        "frazil export weather weather.zarr",
        "frazil export weather weather.bundle --ref main",
    ),
    "clone": (
        "frazil clone weather copy",
        "frazil clone weather s3://bucket/weather --endpoint-url http://127.0.0.1:9000",
    ),
    "import": ("frazil import weather.bundle elsewhere",),
    "migrate": ("frazil migrate weather --dry-run", "frazil migrate weather --yes"),
    # history
    "branch list": ("frazil branch list weather",),
    "branch create": ("frazil branch create weather fix --from v1",),
    "branch delete": ("frazil branch delete weather fix",),
    "tag list": ("frazil tag list weather",),
    "tag create": ("frazil tag create weather v1 --at main~1",),
    "tag delete": ("frazil tag delete weather v1 --yes",),
    "merge": ("frazil merge weather fix --into main", "frazil merge weather fix --dry-run"),
    "cherry-pick": ("frazil cherry-pick weather fix --branch main",),
    "revert": ("frazil revert weather main~1",),
    "reset": ("frazil reset weather v1 --dry-run", "frazil reset weather v1 --yes"),
    "squash": ("frazil squash weather main~5 -m 'All of January' --yes",),
    "ops": ("frazil ops weather -n 20",),
    # upkeep
    "stats": ("frazil stats weather",),
    "expire": ("frazil expire weather --older-than 90d --retain-last 10 --dry-run",),
    "gc": ("frazil gc weather --older-than 7d --dry-run", "frazil gc weather --yes"),
    "verify": ("frazil verify weather", "frazil verify weather --repair --dry-run"),
    "pack": ("frazil pack weather --small 500K",),
    "unpack": ("frazil unpack weather /model/t2m",),
    "rewrite-manifests": ("frazil rewrite-manifests weather --split time=1000",),
    "purge": ("frazil purge weather /secret --dry-run",),
    # settings
    "config show": ("frazil config show weather",),
    "config get": ("frazil config get weather caching.num_bytes_chunks",),
    "config set": (
        "frazil config set weather inline_chunk_threshold_bytes 1024",
        "frazil config set weather compression.level default",
    ),
    "metadata show": ("frazil metadata show weather",),
    "metadata set": ("frazil metadata set weather owner 'the weather office'",),
    "metadata unset": ("frazil metadata unset weather owner",),
    "flags list": ("frazil flags list weather",),
    "flags set": ("frazil flags set weather delete_tag off",),
    # tools
    "serve": ("frazil serve weather", "frazil serve s3://bucket/weather --anonymous"),
    "dump": ("frazil dump weather/repo", "frazil dump s3://bucket/weather/repo --full"),
    "doctor": ("frazil doctor", "frazil doctor s3://bucket/weather"),
    "completion": ('eval "$(frazil completion bash)"', "frazil completion zsh > ~/.zfunc/_frazil"),
}


def epilog(command: str) -> str | None:
    """The end of a command's help; lines stay as they are."""
    lines = EXAMPLES.get(command)
    if lines is None:
        return None
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
