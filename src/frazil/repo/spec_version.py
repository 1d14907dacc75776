"""What version 1 of the format cannot express."""

from frazil.errors import FormatError


def require_version_2(spec_version: int) -> None:
    if spec_version < 2:
        raise unsupported()


def unsupported() -> FormatError:
    return FormatError(
        "repository version error, this operation requires a repository that is at least version"
        " 2.0, please upgrade your on-disk format before executing this operation",
        kind="unsupported-spec-version",
    )
