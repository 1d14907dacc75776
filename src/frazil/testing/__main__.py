"""Checks an object store: `python -m frazil.testing --store my_package:new_store`.

Needs nothing but frazil and its own dependencies: neither pytest nor hypothesis.
"""

import argparse
import importlib
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from frazil.objectstore.conditional_writes import check_conditional_writes
from frazil.objectstore.protocol import ObjectStore
from frazil.testing.checks import checks_of
from frazil.testing.objectstore import ObjectStoreContract
from frazil.testing.store_model import random_operations

type Factory = Callable[[], ObjectStore]
type Check = Callable[[ObjectStore], object]


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if the store passes every check, 1 if not."""
    options = _parser().parse_args(arguments)
    sys.path.insert(0, str(Path.cwd()))  # as `python -m` does for scripts of one's own
    new_store: Factory = options.store()
    contract: type[ObjectStoreContract] = options.contract()
    failed = total = 0
    for title, check in _checks(contract, options.seed, options.operations):
        if options.only not in title:
            continue
        total += 1
        failure = _failure(check, new_store)
        failed += failure is not None
        sys.stdout.write(f"{'ok    ' if failure is None else 'FAILED'}  {title}\n{failure or ''}")
        sys.stdout.flush()
    sys.stdout.write(f"{total - failed} of {total} checks passed, seed {options.seed}\n")
    return 1 if failed or not total else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m frazil.testing",
        description="Checks that an object store does what frazil.objectstore.ObjectStore says:"
        " reads and ranges, keys, listings, conditional writes one at a time and in races, and"
        " random operations compared with a model. Exits with 0 if all checks pass, else with 1.",
    )
    parser.add_argument(
        "--store",
        required=True,
        type=_parse_factory,
        metavar="MODULE:FACTORY",
        help="a function without arguments that returns a new, empty, writable store",
    )
    parser.add_argument(
        "--contract",
        type=_parse_factory,
        default="frazil.testing.objectstore:ObjectStoreContract",
        metavar="MODULE:CLASS",
        help="a subclass of ObjectStoreContract, for a store that may differ in some points",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random operations (default 0)")
    parser.add_argument(
        "--operations", type=int, default=300, help="random operations (default 300)"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="only checks whose name has it")
    return parser


def _parse_factory(text: str) -> Callable[[], Any]:
    module, colon, name = text.partition(":")
    if not colon or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form module:name")
    return lambda: getattr(importlib.import_module(module), name)


def _checks(
    contract: type[ObjectStoreContract], seed: int, operations: int
) -> Iterator[tuple[str, Check]]:
    for title, check, arguments in checks_of(contract):
        yield title, partial(_call, check, contract, arguments)
    yield "races for one key have one winner", _race
    yield (
        "random operations agree with a model",
        partial(
            random_operations,
            seed=seed,
            count=operations,
            counts_missing=not contract.TELLS_WHAT_WAS_MISSING,
        ),
    )


def _call(
    check: Callable[..., object],
    contract: type[ObjectStoreContract],
    arguments: dict[str, Any],
    store: ObjectStore,
) -> None:
    check(contract(), store=store, **arguments)


def _race(store: ObjectStore) -> None:
    problems = check_conditional_writes(store)
    assert not problems, "; ".join(problems)


def _failure(check: Check, new_store: Factory) -> str | None:
    """The reason why the check failed, indented; None if it did not."""
    try:
        check(new_store())
    except Exception as error:  # noqa: BLE001 -- a store may raise anything; the next check is made
        frames = traceback.extract_tb(error.__traceback__)
        place = next((f for f in reversed(frames) if "/frazil/testing/" in f.filename), frames[-1])
        reason = f"{type(error).__name__}: {error}".rstrip(": ")
        return f"        {reason}\n        at {place.name}, line {place.lineno}: {place.line}\n"
    return None


if __name__ == "__main__":
    sys.exit(main())
