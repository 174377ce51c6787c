"""Examples in the docstrings of `operad.flows`: each runs, and uses what it is the example of."""

import ast
import asyncio
import importlib
import inspect
import re
import textwrap

import pytest

from operad.configs.generation import Designer
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.operators import Services
from operad.operators.nodes import NODE_TYPES
from operad.runtime import Job, Tool
from operad.runtime.testing import Say, ScriptedModel, ScriptedReasoner

DOCUMENTED = {
    "assemble": "assemble",
    "catalogue": "card",
    "check": "check",
    "edit": "apply difference parse read_operations",
    "node_graph": "flowchart",
    "signatures": "signatures",
    "generation.nodes_shown": "whole",
    "generation.offer": "Offer offer_for offer_of read_offer",
    "repair": "repair repair_graph",
}
"""Names that users import, by module."""

NAMES = [(module, name) for module, names in DOCUMENTED.items() for name in names.split()]


def search(claim: str) -> str:
    """Look a claim up."""
    return claim


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_an_example_runs_and_uses_its_name(module, name, monkeypatch):
    found = importlib.import_module(f"operad.flows.{module}")
    docstring = inspect.getdoc(getattr(found, name)) or ""
    before = re.split(r"^(?:Args|Attributes|Raises|Returns):$", docstring, maxsplit=1, flags=re.MULTILINE)[0]
    block = re.search(r"^    \S.*(?:\n(?:    .*)?)*", before, re.MULTILINE)
    assert block, "the docstring has an example"
    example = textwrap.dedent(block[0])
    assert re.search(rf"\b{name}\b", example, re.IGNORECASE)
    nodes = [
        NodeSpec("1", "start", {"variables": [["topic", "string"]]}),
        NodeSpec("2", "llm", {"system": "", "user": "About {{#1.topic#}}"}),
        NodeSpec("3", "end", {"outputs": [["summary", ["text", "2"]]]}),
    ]
    with ScriptedModel(lambda _: Say("words")) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "any")
        monkeypatch.setenv("OPERAD_MODEL", "any")
        names = {
            **vars(found),
            "Designer": Designer,
            "Job": Job,
            "NODE_TYPES": NODE_TYPES,
            "NodeGraph": NodeGraph,
            "Services": Services,
            "graph": NodeGraph(nodes, [Edge("1", "2"), Edge("2", "3")]),
            "reasoner": ScriptedReasoner("words"),
            "search": Tool.of(search),
        }
        code = compile(example, f"{name}.__doc__", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        made = eval(code, names)  # noqa: S307
        if inspect.iscoroutine(made):
            asyncio.run(made)
