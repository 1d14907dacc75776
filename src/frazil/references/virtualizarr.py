"""VirtualiZarr's virtual datasets, into a session.

VirtualiZarr's own writer does the work. Its front door lets in only stores of the `icechunk`
package; behind it nothing depends on that, so it serves frazil's stores just as well.
"""

from collections.abc import Mapping
from datetime import datetime
from itertools import chain
from typing import Any, Literal

import zarr

from frazil.api.session import IcechunkStore, Session
from frazil.errors import InvalidInputError, ReadOnlyError
from frazil.flatbuf.strings import Strings
from frazil.format.urls import normalize_location
from frazil.paths import NodePath
from frazil.references.plan import require_containers
from frazil.zarrstore.keys import key_prefix


def write_virtual_dataset(
    dataset: Any,
    target: Session | IcechunkStore,
    *,
    group: str = "",
    mode: Literal["w", "w-", "a"] = "w-",
    append_dim: str | None = None,
    region: Literal["auto"] | Mapping[str, Any] | None = None,
    last_updated_at: datetime | None = None,
    validate_containers: bool = True,
) -> None:
    """Writes a dataset that `virtualizarr.open_virtual_dataset` opened, uncommitted.

    Variables that were loaded are written as they are, the others as virtual references. What
    `Dataset.vz.to_icechunk` says of its options holds here. If anything is wrong, the session
    stays as it was.

    Raises:
        ReadOnlyError: the session is read-only.
        InvalidInputError: VirtualiZarr is missing, or a file is in no container.
    """
    try:
        from virtualizarr.writers import icechunk as writer  # noqa: PLC0415 -- optional
    except ModuleNotFoundError as error:
        raise InvalidInputError(
            "writing virtual datasets needs VirtualiZarr: pip install virtualizarr"
        ) from error
    store = target.store if isinstance(target, Session) else target
    if store.read_only:
        raise ReadOnlyError(
            "Read only sessions cannot modify the repository: this session is read-only"
        )
    engine = store.session.engine
    if validate_containers:
        require_containers(engine, "dataset", _locations(dataset))
    before = engine.copy_changes()
    try:
        opened = zarr.open_group(
            store,
            path=key_prefix(NodePath.from_key_prefix(group)),
            mode="r+" if append_dim or region else mode,
            zarr_format=3,
            use_consolidated=False,
        )
        writer.write_virtual_dataset_to_icechunk_group(
            vds=dataset,
            store=store,  # type: ignore[arg-type]  # frazil's, of the same shape
            group=opened,
            append_dim=append_dim,
            region=region,
            last_updated_at=last_updated_at,
        )
    except BaseException:
        engine.revise(lambda _: before)
        raise


def _locations(dataset: Any) -> Strings:
    """Locations of all files that virtual variables are in, each once."""
    manifests = [
        getattr(variable.data, "manifest", None) for variable in dataset.variables.values()
    ]
    paths = (each.iter_nonempty_paths() for each in manifests if each is not None)
    return Strings.from_list(
        [normalize_location(str(text)) for text in dict.fromkeys(chain(*paths))]
    )
