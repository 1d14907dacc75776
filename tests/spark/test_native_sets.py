"""Sets of positions and of cells (Ranges.java, Cells.java) against sets written out with numpy.

The classes are compiled together with the few lines below by Spark's compiler, in a package of
their own, so that thousands of cases cross into the JVM in one call.
"""

import re
from collections.abc import Callable
from itertools import pairwise, product
from math import ceil, prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from pyspark.sql import SparkSession

from frazil.spark.native.jar import SOURCES

pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix]

CASES = 3000
HARNESS = """
public class SetCases {
  private static Ranges ranges(String text) {
    Ranges.Builder found = new Ranges.Builder();
    String[] parts = text.trim().split(",");
    for (int i = 0; i + 1 < parts.length; i += 2) {
      found.add(Long.parseLong(parts[i].trim()), Long.parseLong(parts[i + 1].trim()));
    }
    return found.build();
  }

  /** Products separated by +, their sets of positions by x: each a union, disjoint or not. */
  private static Cells cells(String text) {
    Cells found = Cells.none();
    if (text.trim().length() == 0) {
      return found;
    }
    String[] products = text.split("\\\\+");
    for (int i = 0; i < products.length; i++) {
      String[] along = products[i].split("x");
      Ranges[] one = new Ranges[along.length];
      for (int d = 0; d < one.length; d++) {
        one[d] = ranges(along[d]);
      }
      found = found.or(Cells.of(one));
    }
    return found;
  }

  private static String one(String line) {
    String[] parts = line.split(";", -1);
    String what = parts[0];
    long n = Long.parseLong(parts[1]);
    Cells a = cells(parts[2]);
    Cells b = cells(parts[3]);
    Cells found = a;
    if ("and".equals(what)) {
      found = a.and(b);
    } else if ("or".equals(what)) {
      found = a.or(b);
    } else if ("minus".equals(what)) {
      found = a.minus(b);
    } else if ("first".equals(what)) {
      found = a.first(n);
    } else if ("exactlyFirst".equals(what)) {
      found = a.exactlyFirst(n);
    } else if ("along".equals(what) && a.count() > 0) {
      found = Cells.of(new Ranges[] {a.along(0)});
    } else if ("chunks".equals(what) && a.count() > 0) {
      found = Cells.of(new Ranges[] {a.along(0).chunks(n)});
    }
    return found.size() + ";" + found;
  }

  public static String run(String lines) {
    StringBuilder text = new StringBuilder();
    String[] each = lines.split("\\n");
    for (int i = 0; i < each.length; i++) {
      text.append(one(each[i])).append("\\n");
    }
    return text.toString();
  }
}
"""

type Mask = npt.NDArray[np.bool_]


@pytest.fixture(scope="module")
def run(spark: SparkSession) -> Callable[[str], str]:
    """The harness, compiled with the two classes as one unit."""
    texts = [
        (SOURCES / "frazil/spark" / f"{name}.java").read_text() for name in ("Ranges", "Cells")
    ]
    bodies = [re.sub(r"^(package|import) .*;$", "", text, flags=re.MULTILINE) for text in texts]
    imports = sorted(
        {line for text in texts for line in re.findall(r"^import .*;$", text, re.MULTILINE)}
    )
    unit = "\n".join(["package frazil.sets;", *imports, *bodies, HARNESS])
    jvm: Any = spark._jvm  # the only way to a class of ours
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(unit)
    found = compiler.getClassLoader().loadClass("frazil.sets.SetCases")
    method = next(m for m in found.getMethods() if m.getName() == "run")

    def call(lines: str) -> str:
        arguments = spark.sparkContext._gateway.new_array(jvm.java.lang.Object, 1)  # type: ignore[union-attr]
        arguments[0] = lines
        return str(method.invoke(None, arguments))

    return call


def some_ranges(rng: np.random.Generator, size: int) -> list[int]:
    if rng.random() < 0.3:
        return [0, size]
    mask = rng.random(size) < rng.choice([0.1, 0.5, 0.9])
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(np.int8), [0]])))
    return [int(edge) for edge in edges]


def some_cells(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[str, Mask]:
    """A union of a few products, as text and written out."""
    texts, mask = [], np.zeros(shape, dtype=bool)
    for _ in range(int(rng.integers(0, 4))):
        along = [some_ranges(rng, n) for n in shape]
        texts.append("x".join(",".join(map(str, edges)) or " " for edges in along))
        mask[np.ix_(*(positions(edges) for edges in along))] = True
    return "+".join(texts), mask


def positions(edges: list[int]) -> npt.NDArray[np.int64]:
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return np.array([at for start, stop in pairs for at in range(start, stop)], dtype=np.int64)


def parse(text: str, shape: tuple[int, ...]) -> Mask:
    """The cells of a result; that no two products overlap is required."""
    mask = np.zeros(shape, dtype=bool)
    for one in text.split(" + ") if text else []:
        along = [[int(n) for n in re.findall(r"-?\d+", part)] for part in one.split(" x ")]
        for edges in along:
            assert edges, "an empty product"
            assert all(a < b for a, b in pairwise(edges)), edges
        where = np.ix_(*(positions(edges) for edges in along))
        assert not mask[where].any(), f"products overlap: {text}"
        mask[where] = True
    return mask


def require_right(what: str, n: int, masks: tuple[Mask, Mask], found: Mask) -> None:
    a, b = masks
    if what in {"first", "exactlyFirst"}:
        assert not (found & ~a).any()
        wanted = min(n, int(a.sum()))
        assert found.sum() == wanted if what == "exactlyFirst" else found.sum() >= wanted
        if what == "first" and n == 0:
            assert not found.any()
        return
    rest = tuple(range(1, a.ndim))
    expected = {
        "and": lambda: a & b,
        "or": lambda: a | b,
        "minus": lambda: a & ~b,
        "along": lambda: a.any(axis=rest),
        "chunks": lambda: chunked(a.any(axis=rest), n),
    }[what]()
    assert np.array_equal(found, expected)


def chunked(mask: Mask, size: int) -> Mask:
    return np.array([mask[k * size : (k + 1) * size].any() for k in range(ceil(len(mask) / size))])


def test_sets_of_cells_are_those_of_numpy(run: Callable[[str], str]) -> None:
    rng = np.random.default_rng(18)
    lines, checks = [], []
    whats = ("and", "or", "minus", "first", "exactlyFirst", "along", "chunks")
    for k in range(CASES):
        shape = tuple(int(n) for n in rng.integers(1, 8, int(rng.integers(1, 5))))
        if len(shape) == 1:
            shape = (int(rng.integers(1, 60)),)
        (ta, a), (tb, b) = some_cells(rng, shape), some_cells(rng, shape)
        what = whats[k % len(whats)]
        n = int(rng.integers(1, 10) if what == "chunks" else rng.integers(0, prod(shape) + 3))
        lines.append(f"{what};{n};{ta};{tb}")
        checks.append((what, n, (a, b), shape))
    answers = run("\n".join(lines)).splitlines()
    assert len(answers) == CASES
    for line, (what, n, masks, shape), answer in zip(lines, checks, answers, strict=True):
        size, text = answer.split(";")
        one = {"along": (shape[0],), "chunks": (ceil(shape[0] / n),) if n else shape}
        try:
            found = parse(text, one.get(what, shape))
            assert int(size) == found.sum()
            require_right(what, n, masks, found)
        except AssertionError as error:
            raise AssertionError(f"{line} gives {answer}") from error


def test_first_rows_of_a_large_product_are_not_written_out(run: Callable[[str], str]) -> None:
    """A thousand million million cells, and any limit."""
    for rows in (1, 1000, 10**9, 10**15):
        size, _ = run(f"exactlyFirst;{rows};0,100000x0,100000x0,100000;").split(";")
        assert int(size) == rows
        size, _ = run(f"first;{rows};0,100000x0,100000x0,100000;").split(";")
        assert rows <= int(size) <= 2 * rows


def test_many_products_do_not_grow_beyond_bounds(run: Callable[[str], str]) -> None:
    """Of a checkerboard, all combinations: the union is right, however many products it takes."""
    rng = np.random.default_rng(3)
    shape = (12, 12, 12)
    parts, mask = [], np.zeros(shape, dtype=bool)
    for _ in range(40):
        at = [sorted(int(x) for x in rng.choice(13, 2, replace=False)) for _ in shape]
        parts.append("x".join(f"{lo},{hi}" for lo, hi in at))
        mask[tuple(slice(lo, hi) for lo, hi in at)] = True
    size, text = run(f"or;0;{'+'.join(parts)};").strip().split(";")
    assert np.array_equal(parse(text, shape), mask)
    assert int(size) == mask.sum()
    assert len(list(product(*map(range, shape)))) >= int(size)
