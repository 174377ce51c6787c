"""Integrations of other packages: those that entry points name."""

import subprocess
import sys
from pathlib import Path

import pytest

from operad.configs.read_capabilities import graph_capabilities
from operad.configs.workflow_file import load_workflow
from operad.flows.check import check
from operad.flows.formats.table import find_format, formats, read
from operad.operators.integration import Integration, integrations
from operad.operators.nodes import NODE_TYPES
from operad.runtime.values.errors import InputError

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a package with one module and one entry point."""

    def installed(module: str, code: str, entry: str) -> None:
        (tmp_path / f"{module}.py").write_text(code, encoding="utf-8")
        about = tmp_path / f"{module}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[operad.integrations]\n{entry}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        integrations.cache_clear()

    yield installed
    integrations.cache_clear()
    sys.modules.pop("steps", None)


def steps(install) -> None:
    install("steps", PAGE.partition('title="steps.py"\n')[2].partition("\n```")[0], "steps = steps:INTEGRATION")


def test_the_package_of_the_documentation_adds_a_format_and_a_node_type(install):
    steps(install)
    known = formats()
    data = b"- hello, {}\n- {}!\n"
    assert find_format(data, known) is known["steps"]
    found, graph = read(data, "hello", known)
    assert [node.type for node in graph.nodes] == ["start", "shout", "shout", "end"]
    assert (check(graph, NODE_TYPES), found.dump(graph), found.losses(graph)) == ([], data, [])
    operad = known["operad"]
    assert found.dump(operad.load(operad.dump(graph))) == data


def test_a_workflow_with_its_node_types_runs_when_it_is_trusted(install, tmp_path):
    steps(install)
    file = tmp_path / "hello.operad.yaml"
    known = formats()
    _, graph = read(b"- hello, {}\n- {}!\n", "hello", known)
    file.write_bytes(known["operad"].dump(graph))
    assert [str(each) for each in graph_capabilities(str(file), tmp_path, graph).each] == [
        "sets parameters of shout, which is not known to be harmless"
    ]
    result = load_workflow(file, trust=True).run({"text": "moon"})
    assert result.message.outputs == {"text": "HELLO, MOON!"}


@pytest.mark.parametrize(
    ("code", "entry", "said"),
    [
        ("raise ValueError('no')", "a = broken:INTEGRATION", "package broken: ValueError: no"),
        ("INTEGRATION = 3", "a = broken:INTEGRATION", "package broken: names something other than an Integration"),
        ("", "a = broken:INTEGRATION", "package broken: AttributeError"),
    ],
)
def test_an_integration_that_cannot_be_imported_is_an_error_that_names_its_package(install, code, entry, said):
    install("broken", code, entry)
    with pytest.raises(InputError, match=said):
        integrations()
    sys.modules.pop("broken", None)


def test_integrations_of_operad_are_found_by_name():
    assert [each.name for each in integrations()] == [
        "chat2workflow",
        "comfyui",
        "coze",
        "crewai",
        "dify",
        "flowise",
        "worfbench",
    ]
    assert all(isinstance(each, Integration) for each in integrations())


@pytest.mark.slow
def test_the_module_of_a_command_of_an_integration_can_be_imported_alone():
    code = "import operad.integrations.chat2workflow.commands.pass_rate"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
