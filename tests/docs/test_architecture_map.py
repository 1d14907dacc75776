"""The map of docs/architecture.md agrees with the tree."""

import importlib
import re
import tomllib
import xml.etree.ElementTree as ET

import pytest

from scripts.draw_architecture import FOLDER, drawings
from tests.test_architecture import LAYERS, ROOT_MODULES, SRC

PAGE = (FOLDER.parents[1] / "architecture.md").read_text()
MAP = tomllib.loads((FOLDER / "map.toml").read_text())
VALUES, FACADE = "values", "facade"  # rooms of the map that stand for modules of the root
STEPS = [step["calls"] for flow in MAP["flow"].values() for step in flow["step"]]


def packages() -> set[str]:
    return {
        path.parent.relative_to(SRC).as_posix()
        for path in SRC.rglob("__init__.py")
        if path.parent != SRC
    }


def test_every_package_is_on_the_map() -> None:
    rooms = [room for layer in MAP["layer"] for room in layer["room"]]
    drawn = {room["name"] for room in rooms} - {VALUES, FACADE}
    drawn |= {f"{room['name']}/{inner}" for room in rooms for inner in room["rooms"]}
    assert drawn == packages()


def test_every_package_and_module_of_the_root_is_in_the_table() -> None:
    paths = set(re.findall(r"`([\w/]+/|\w+\.py)`", PAGE.partition("## Packages")[2]))
    assert {name for name in packages() if f"{name}/" not in paths} <= {"spark"}
    assert {f"{name}.py" for name in ROOT_MODULES} - paths == set()


def test_layers_are_drawn_in_their_order() -> None:
    rank = {name: number for number, layer in enumerate(LAYERS) for name in layer}
    drawn = [[room["name"] for room in layer["room"]] for layer in MAP["layer"]]
    ranks = [max(rank[n] for n in names if n in rank) for names in drawn if rank.keys() & names]
    assert ranks == sorted(ranks, reverse=True)


@pytest.mark.parametrize("step", sorted(set(STEPS)))
def test_steps_of_flows_exist(step: str) -> None:
    module, name = step.split(":")
    assert hasattr(importlib.import_module(f"frazil.{module}"), name)


def test_every_drawing_is_up_to_date_and_on_the_page() -> None:
    for name, text in drawings():
        assert (FOLDER / f"{name}.svg").read_text() == text
        assert f"images/architecture/{name}.svg" in PAGE
        ET.fromstring(text)  # noqa: S314 -- our own
        assert "prefers-color-scheme: dark" in text
