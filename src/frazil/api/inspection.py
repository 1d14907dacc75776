"""Views of a repository for people who want to see how it is made."""

import asyncio
from typing import Any

from frazil.api.administration import AdministeredRepository
from frazil.api.versions import require_version
from frazil.assets.old_files import OldFiles
from frazil.describe import inspect, inspect_old
from frazil.describe.graph import Graph, graph_of, svg_of, text_of
from frazil.ids import ManifestId, SnapshotId
from frazil.repo.repo_settings import require_version_2


class AncestryGraph:
    """A picture of a history: text when printed, SVG in a notebook."""

    def __init__(self, graph: Graph, *, plain: bool) -> None:
        self._graph = graph
        self._plain = plain

    def __str__(self) -> str:
        return text_of(self._graph, plain=self._plain)

    def __repr__(self) -> str:
        return str(self)

    def _repr_svg_(self) -> str:
        return svg_of(self._graph)


class InspectedRepository(AdministeredRepository):
    """The part of Repository that shows how it is made."""

    def ancestry_graph(
        self,
        *,
        branch: str | None = None,
        tag: str | None = None,
        snapshot_id: str | None = None,
        plain: bool = False,
    ) -> AncestryGraph:
        """The history of one version, or of all branches; coloured when printed unless `plain`."""
        version = None
        if not branch is tag is snapshot_id is None:
            version = require_version(branch=branch, tag=tag, snapshot_id=snapshot_id)
        return AncestryGraph(graph_of(self._engine.repo_info(), version), plain=plain)

    async def ancestry_graph_async(
        self,
        *,
        branch: str | None = None,
        tag: str | None = None,
        snapshot_id: str | None = None,
        plain: bool = False,
    ) -> AncestryGraph:
        return await asyncio.to_thread(
            self.ancestry_graph, branch=branch, tag=tag, snapshot_id=snapshot_id, plain=plain
        )

    def inspect_snapshot(self, snapshot_id: str) -> dict[str, Any]:
        """What its file says: message, metadata, manifests, nodes."""
        snapshot = SnapshotId.parse(snapshot_id)
        if isinstance(self._engine.files, OldFiles):
            return inspect_old.inspect_old_snapshot(self._engine.files, snapshot)
        return inspect.inspect_snapshot(self._engine.store, snapshot)

    async def inspect_snapshot_async(self, snapshot_id: str) -> dict[str, Any]:
        return await asyncio.to_thread(self.inspect_snapshot, snapshot_id)

    def inspect_repo_info(self) -> dict[str, Any]:
        """What the entry point says: branches, tags, snapshots, the newest part of the ops log."""
        require_version_2(self._engine.spec_version)
        return inspect.inspect_repo_info(self._engine.store)

    async def inspect_repo_info_async(self) -> dict[str, Any]:
        return await asyncio.to_thread(self.inspect_repo_info)

    def inspect_manifest(self, manifest_id: str) -> dict[str, Any]:
        """How many chunk references of which kind the manifest has, in all and by array."""
        manifest = ManifestId.parse(manifest_id)
        if isinstance(self._engine.files, OldFiles):
            return inspect_old.inspect_old_manifest(self._engine.files, manifest)
        return inspect.inspect_manifest(self._engine.store, manifest)

    async def inspect_manifest_async(self, manifest_id: str) -> dict[str, Any]:
        return await asyncio.to_thread(self.inspect_manifest, manifest_id)

    def inspect_transaction_log(self, snapshot_id: str) -> dict[str, Any]:
        """Which nodes and chunks the commit changed; after an expiration, also those before it."""
        snapshot = SnapshotId.parse(snapshot_id)
        if isinstance(self._engine.files, OldFiles):
            return inspect_old.inspect_old_log(self._engine.files, snapshot)
        known = self._engine.repo_info().snapshots
        row = known.find(snapshot)
        pruned = [] if row < 0 else [SnapshotId(raw) for raw in known.pruned_logs(row)]
        return inspect.inspect_transaction_log(self._engine.store, snapshot, pruned)

    async def inspect_transaction_log_async(self, snapshot_id: str) -> dict[str, Any]:
        return await asyncio.to_thread(self.inspect_transaction_log, snapshot_id)
