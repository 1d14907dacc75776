"""Feature flags: operations that a repository can switch off. Pure steps, as in refs.py.

The repo info lists a flag only where somebody has set it. Flags that a newer client may have set,
and whose names nobody here knows, stay as they are.
"""

from dataclasses import dataclass, replace

from frazil.errors import InvalidInputError, SessionStateError
from frazil.format.repo_info import RepoInfo
from frazil.format.update_log import FeatureFlagChanged, UpdateKind


@dataclass(frozen=True, slots=True)
class Flag:
    id: int  # as stored
    name: str
    default_enabled: bool = True


MOVE_NODE = Flag(3, "move_node")
CREATE_TAG = Flag(4, "create_tag")
DELETE_TAG = Flag(5, "delete_tag")
FLAGS = (MOVE_NODE, CREATE_TAG, DELETE_TAG)


def require_flag(name: str) -> Flag:
    for flag in FLAGS:
        if flag.name == name:
            return flag
    raise InvalidInputError(f"invalid feature flag name: {name}", kind="invalid-feature-flag")


def setting(info: RepoInfo, flag: Flag) -> bool | None:
    """What was set; None where the default holds."""
    if flag.id in info.disabled_flags:
        return False
    return True if flag.id in info.enabled_flags else None


def is_enabled(info: RepoInfo, flag: Flag) -> bool:
    found = setting(info, flag)
    return flag.default_enabled if found is None else found


def require_enabled(info: RepoInfo, flag: Flag, *, doing: str) -> None:
    if not is_enabled(info, flag):
        raise SessionStateError(
            f"{doing} is disabled by a feature flag ({flag.name})", kind="feature-flag-disabled"
        )


def set_flag(info: RepoInfo, flag: Flag, value: bool | None) -> tuple[RepoInfo, UpdateKind]:  # noqa: FBT001 -- three values, not a switch
    """On, off, or with None back to the default."""
    enabled = {*info.enabled_flags} - {flag.id} | ({flag.id} if value is True else set())
    disabled = {*info.disabled_flags} - {flag.id} | ({flag.id} if value is False else set())
    info = replace(
        info, enabled_flags=tuple(sorted(enabled)), disabled_flags=tuple(sorted(disabled))
    )
    return info, FeatureFlagChanged(flag.id, value)
