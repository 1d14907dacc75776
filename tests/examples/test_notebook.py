"""The notebook of the examples runs from the top, in a kernel of its own."""

from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "examples" / "first_steps.ipynb"


def test_the_notebook_runs_and_shows_its_graph(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]  # no types
    assert all(not cell.get("outputs") for cell in notebook.cells)  # stored without results
    done = NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": tmp_path}}
    ).execute()
    shown = [
        output["data"]
        for cell in done.cells
        for output in cell.get("outputs", [])
        if output["output_type"] == "execute_result"
    ]
    assert any("image/svg+xml" in data or "text/html" in data for data in shown)
    assert any("four days" in str(data) for data in shown)
    assert list(tmp_path.iterdir()) == []
