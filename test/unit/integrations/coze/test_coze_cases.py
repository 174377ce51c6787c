"""Workflows of our own in Coze's form run by the rules of its nodes, or say why not and what to do."""

import io
import json
import re
import zipfile
from pathlib import Path

import pytest
import yaml
from coze_runs import outputs_of, told

from operad.integrations.coze import format as coze

DATA = Path(__file__).parents[2] / "data" / "coze_cases"
OUTCOMES = json.loads((DATA / "outcomes.json").read_text(encoding="utf-8"))
RUNS = [name for name, outcome in OUTCOMES.items() if "outputs" in outcome]
TOLD = [name for name in OUTCOMES if name not in RUNS]


def archived(name):
    """The archive whose workflow is the file."""
    stream = io.BytesIO()
    manifest = {"type": "Workflow", "version": "1.0.0", "main": {"id": 1, "name": name}, "sub": []}
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("Workflow-draft/MANIFEST.yml", yaml.safe_dump(manifest))
        archive.writestr(f"Workflow-draft/workflow/{name}-draft.yaml", (DATA / f"{name}.yaml").read_bytes())
    return stream.getvalue()


@pytest.mark.parametrize("name", RUNS)
def test_a_workflow_runs_by_cozes_rules(name):
    graph = coze.load(archived(name))
    assert outputs_of(graph, OUTCOMES[name]) == OUTCOMES[name]["outputs"]
    assert told(graph) == ([], [])


@pytest.mark.parametrize("name", TOLD)
def test_a_workflow_that_cannot_run_as_at_coze_names_the_node_the_feature_and_what_to_do(name):
    refusals, losses = told(coze.load(archived(name)))
    outcome = OUTCOMES[name]
    said, *_ = refusals or losses
    assert said.where in ("110001", "900001")
    if refusals:
        assert said.message == outcome["refused"]
        assert re.search(r"; (add|ask|split|write) ", said.message)
    else:
        assert said.message == outcome["differs"]
        assert re.search(r": \w", said.message)


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_workflow_is_written_back_as_it_was(name):
    with zipfile.ZipFile(io.BytesIO(coze.dump(coze.load(archived(name))))) as archive:
        [file] = [path for path in archive.namelist() if path.endswith("-draft.yaml")]
        assert yaml.safe_load(archive.read(file)) == yaml.safe_load((DATA / f"{name}.yaml").read_bytes())
