"""Manifests fetched before they are asked for, while nobody waits."""

from contextlib import suppress
from functools import partial
from weakref import ReferenceType, ref

from frazil.assets.background import BETWEEN_FORKS
from frazil.assets.files import Files
from frazil.assets.preload_rules import PreloadPlan, plan_preload
from frazil.errors import FormatError
from frazil.format.snapshot import Snapshot
from frazil.ids import ManifestId

_FEW = 16


def preload_manifests(files: Files, snapshot: Snapshot, *, reader: object) -> None:
    """Begins to fetch what the rules choose of the snapshot's manifests; returns at once.

    Ends early when there is nobody left to read: neither the files nor `reader` are kept alive.
    Nothing that fails here is heard of: whoever needs the manifest meets the error again.
    """
    rules = files.settings.preload
    if rules.are_void or not snapshot.manifest_files:
        return
    if len(snapshot.manifest_files) <= _FEW and _are_at_hand(files, snapshot):
        return  # as after a commit of one's own
    kept, wanted_by = ref(files), ref(reader)
    plan = files.caches.plans.find(snapshot.id)
    if plan is not None and plan.rules == rules:
        _submit(files, plan, wanted_by)
        return

    def begin() -> None:
        if (files := kept()) is not None and wanted_by() is not None:
            plan = plan_preload(snapshot, rules)
            with BETWEEN_FORKS:
                files.caches.plans.remember(snapshot.id, plan)
            _submit(files, plan, wanted_by)

    if len(snapshot.nodes) <= _FEW:  # sooner planned than a thread is started
        with suppress(FormatError):
            begin()
    else:
        files.caches.background.submit(begin)


def _are_at_hand(files: Files, snapshot: Snapshot) -> bool:
    with BETWEEN_FORKS:
        return all(files.find_manifest(each.id) is not None for each in snapshot.manifest_files)


def _submit(files: Files, plan: PreloadPlan, wanted_by: ReferenceType[object]) -> None:
    kept = ref(files)

    def fetch(manifest: ManifestId) -> None:
        if (files := kept()) is not None and wanted_by() is not None:
            files.preload_manifest(manifest)

    with BETWEEN_FORKS:
        missing = [manifest for manifest in plan.manifests if files.find_manifest(manifest) is None]
    for manifest in missing:
        files.caches.background.submit(partial(fetch, manifest))
