"""The example notebook, run by a real kernel."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

HERE = Path(__file__).parent


@pytest.mark.slow  # a kernel of its own, for the main job that test_examples.py runs, too
def test_the_notebook_runs():
    notebook = nbformat.read(HERE / "notebook.ipynb", as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "clear its outputs: they are made when it runs"
    client = NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(HERE)}})
    client.execute()
    shown = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    picture, progress, result, loud = shown
    assert picture[0].data["image/svg+xml"].startswith("<svg")
    assert "<b>Release credits</b> SUCCESS" in progress[0].data["text/html"]
    assert "Marit Solberg" in progress[0].data["text/html"]
    assert result[0].data["text/html"].startswith("<div><p><b>SUCCESS</b>")
    assert "<b>loud</b> SUCCESS · 2 rounds" in loud[0].data["text/html"]
    assert "THANKS TO ALL OF YOU" in loud[1].data["text/html"]
