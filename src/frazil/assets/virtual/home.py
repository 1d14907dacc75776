"""How a repository itself is reached, for virtual chunks that are on the same platform."""

from frazil.assets.virtual.access import Home
from frazil.objectstore.protocol import ObjectStore


def home_of(store: ObjectStore) -> Home | None:
    """None if no platform of the default containers is meant."""
    del store
    return None
