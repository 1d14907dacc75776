"""How large files are that a reference names as a whole."""

import numpy as np
import numpy.typing as npt

from frazil.flatbuf.strings import Strings
from frazil.repo.session import Session


def sizes_of_files(session: Session, locations: Strings) -> npt.NDArray[np.uint64]:
    """Bytes of each file, asked for concurrently; their containers must be authorized."""
    files = session.files
    sizes = files.pool.map(files.virtual.size_bytes, locations.to_texts())
    return np.array(list(sizes), dtype=np.uint64)
