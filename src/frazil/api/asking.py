"""How frazil names itself to servers, with what a caller wants to read in their logs."""

from dataclasses import replace
from importlib.metadata import version

from frazil.api.attribution import Attribution
from frazil.objectstore.protocol import ObjectStore


def attributed(store: ObjectStore, attribution: Attribution | None) -> ObjectStore:
    """The same store, whose requests say who asks. Only remote ones have somebody to tell."""
    return store.with_settings(lambda before: replace(before, user_agent=product(attribution)))


def product(attribution: Attribution | None) -> str:
    """`client/1.2 frazil/0.1 (workload=...; principal=...)`."""
    said = attribution or Attribution()
    labels = [("workload", said.workload), ("principal", said.principal)]
    comment = "; ".join(f"{name}={value}" for name, value in labels if value is not None)
    client = [] if said.client is None else [said.client]
    own = [f"frazil/{version('frazil')}"]
    return " ".join([*client, *own, *([f"({comment})"] if comment else [])])
