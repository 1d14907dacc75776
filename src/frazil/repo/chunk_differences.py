"""What to do to the chunks of an array to make it what it is in another snapshot.

Manifests that both snapshots use are not read: the rest of the references is compared column by
column. Only references are looked at: equal bytes in two objects differ here, unless the caller
knows of chunks that were moved (`canonical`).
"""

from collections.abc import Callable, Sequence

from frazil.assets.files import Files
from frazil.format.chunk_index import distinct
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.nodes import ManifestRef, Node
from frazil.repo.chunk_overlaps import Canonical, changed_since
from frazil.repo.lookup import refs_in
from frazil.repo.pending import ChunkChanges

type ReadRefs = Callable[[Node, Sequence[ManifestRef]], ChunkRefs]
"""The array's references in those manifests, as far as they are inside its grid."""


def chunks_between(
    before: Node | None, after: Node, read: ReadRefs, canonical: Canonical | None = None
) -> ChunkChanges:
    """What to do to an array as it was `before`, or as none; of a group there is nothing."""
    new = after.array
    if new is None:
        return ChunkChanges.none(0)
    old = None if before is None else before.array
    if before is None or old is None or len(old.shape) != len(new.shape):
        refs = read(after, new.manifests)
        return ChunkChanges(refs=refs, deleted=refs.index[:0])
    # With another grid, another part of the same manifest is in force.
    both = {ref.id for ref in old.manifests} & {ref.id for ref in new.manifests}
    shared = both if old.num_chunks == new.num_chunks else set()
    was = read(before, [ref for ref in old.manifests if ref.id not in shared])
    now = read(after, [ref for ref in new.manifests if ref.id not in shared])
    none = was.index[:0]
    since = changed_since(ChunkChanges(now, none), ChunkChanges(was, none), canonical)
    return ChunkChanges(refs=since.refs, deleted=distinct(was.index[now.lookup(was.index) < 0]))


def refs_reader(files: Files) -> ReadRefs:
    def read(node: Node, manifests: Sequence[ManifestRef]) -> ChunkRefs:
        grid = () if node.array is None else node.array.num_chunks
        found = files.pool.map(lambda ref: refs_in(files, node, ref), list(manifests))
        parts = [refs for refs in found if refs is not None]
        return ChunkRefs.concat(parts).within(grid) if parts else ChunkRefs.empty(len(grid))

    return read
