"""A Dify file with any value replaced by one of another type gives a workflow or issues, and never another error."""

import random
from functools import cache
from pathlib import Path

import pytest
import yaml
from amounts import amount
from changed_scalars import STRANGE, changed, distinct_fields
from dify_runs import run_dify
from yaml import CSafeDumper, CSafeLoader

from operad.flows.formats.operad import OPERAD
from operad.integrations.dify.format import DIFY, dump_over
from operad.runtime.values.errors import OperadError

CASES = Path(__file__).parents[2] / "data" / "dify_cases"
FOLDERS = (CASES, Path(__file__).parents[5] / "shared" / "cases" / "files")
FILES = [file for folder in FOLDERS for file in sorted(folder.glob("*.yml"))]
NOWHERE = "http://127.0.0.1:9"
"""Address at which nothing answers."""


PARTS = 32
"""Parts of the property over all fields; each runs by itself."""


@cache
def every_change():
    """Return a change of every distinct field of the files: the file, the path, the strange value and the whole value."""
    chance = random.Random(7)  # noqa: S311
    values = [yaml.load(file.read_bytes(), CSafeLoader) for file in FILES]
    places = distinct_fields(values).values()
    return [(FILES[number], path, chance.choice(STRANGE), values[number]) for number, path in places]


@pytest.mark.parametrize("part", range(amount(1, PARTS)))
async def test_any_value_of_another_type_gives_a_workflow_or_issues(part):
    """One of four is also written over the text of its file and as Operad's, and one of 16 runs: both cost the most."""
    for number, (file, path, strange, whole) in enumerate(every_change()[part::PARTS]):
        value = changed(whole, path, strange)
        text = yaml.dump(value, allow_unicode=True, Dumper=CSafeDumper).encode()
        try:
            graph = DIFY.load(text)
        except OperadError:
            continue
        told = [*DIFY.check(graph.runnable), *DIFY.losses(graph)]
        said = [*(issue.message for issue in told), *(remark.says for remark in DIFY.remarks(graph))]
        assert all(said), (file, path, strange)
        if "app" in value:  # a graph alone is written as an app, except over its text
            assert yaml.load(DIFY.dump(graph), CSafeLoader) == value, (file, path, strange)
        if number % 4 == 0:
            assert yaml.load(dump_over(graph, text), CSafeLoader) == value, (file, path, strange)
            OPERAD.dump(graph)
        if number % 16 == 0:
            await run_dify(text, NOWHERE, {})


@pytest.mark.parametrize(
    ("fields", "params"),
    [
        ({"retry_config": {"max_retries": "2", "retry_enabled": "true", "retry_interval": "1000"}}, {"failure": {"retries": 2, "wait": 1}}),
        ({"retry_config": {"max_retries": 3.0, "retry_enabled": 1, "retry_interval": 500}}, {"failure": {"retries": 3, "wait": 0.5}}),
        ({"retry_config": {"max_retries": 2, "retry_enabled": "no", "retry_interval": 500}}, {}),
    ],
)  # fmt: skip
def test_numbers_and_booleans_as_texts_are_read_as_in_dify(fields, params):
    graph, _ = code_with(fields)
    read = dict(graph.by_id["2"].params)
    assert {name: read[name] for name in params} == params
    assert ("failure" in read) is bool(params)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("max_retries", "many"), ("max_retries", 2.5), ("max_retries", None), ("max_retries", [2]),
        ("retry_interval", {"ms": 1}), ("retry_enabled", "maybe"), ("retry_enabled", 2),
    ],
)  # fmt: skip
def test_a_value_that_dify_refuses_is_named_and_written_back(path, value):
    retry = {"max_retries": 2, "retry_enabled": True, "retry_interval": 1000, path: value}
    graph, text = code_with({"retry_config": retry})
    said = [remark for remark in DIFY.remarks(graph) if remark.lossy]
    assert [(remark.node, remark.field) for remark in said] == [("2", f"retry_config.{path}")]
    assert yaml.safe_load(dump_over(graph, text)) == yaml.safe_load(text)


@pytest.mark.parametrize("name", [[], {}, ["a"], 7, None])
def test_a_parameter_of_an_extractor_whose_name_is_no_text_is_an_issue(name):
    whole = yaml.safe_load((CASES / "extractor-report.yml").read_text("utf-8"))
    whole["workflow"]["graph"]["nodes"][1]["data"]["parameters"][0]["name"] = name
    assert "2" in {issue.where for issue in DIFY.check(DIFY.load(yaml.safe_dump(whole).encode()).runnable)}


VARIABLE = ("workflow", "environment_variables", 0)
IN_FIRST = ("workflow", "graph", "nodes", 0)
IN_EDGE = ("workflow", "graph", "edges", 0)
REFUSED = [
    ("environment.yml", (*VARIABLE, "name"), 7, "", "workflow.environment_variables[0].name"),
    ("environment.yml", (*VARIABLE, "value_type"), "texts", "", "workflow.environment_variables[0].value_type"),
    ("environment.yml", (*VARIABLE, "value_type"), None, "", "workflow.environment_variables[0].value_type"),
    ("environment.yml", (*VARIABLE, "value"), {"a": 1}, "", "workflow.environment_variables[0].value"),
    ("environment.yml", (*VARIABLE, "value"), None, "", "workflow.environment_variables[0].value"),
    ("environment.yml", (*IN_FIRST, "parentId"), 7, "1", "parentId"),
    ("environment.yml", (*IN_FIRST, "data", "error_strategy"), "retry", "1", "error_strategy"),
    ("http-post.yml", ("workflow", "graph", "nodes", 1, "data", "headers"), None, "2", "headers"),
    ("loop-breaks.yml", ("workflow", "graph", "nodes", 1, "data", "logical_operator"), "nor", "3", "logical_operator"),
]
"""File, path, a value that Dify refuses there, and the node and the field of the remark."""
SHOWN = [
    ("environment.yml", (*VARIABLE, "description"), None, "", "workflow.environment_variables[0].description"),
    ("environment.yml", ("version",), 0.4, "", "version"),
    ("environment.yml", ("app", "name"), None, "", "app.name"),
    ("environment.yml", (*IN_FIRST, "data", "title"), None, "1", "title"),
    ("environment.yml", (*IN_EDGE, "id"), 7, "2", "id"),
    ("environment.yml", (*IN_EDGE, "sourceHandle"), None, "2", "sourceHandle"),
    ("retry-llm.yml", ("workflow", "graph", "nodes", 1, "data", "model", "name"), 7, "2", "model.name"),
]
"""The same for fields that do not change a run here."""


@pytest.mark.parametrize(
    ("name", "path", "value", "node", "field", "lossy"),
    [*((*each, True) for each in REFUSED), *((*each, False) for each in SHOWN)],
)
def test_a_value_anywhere_that_dify_refuses_is_named_and_written_back(name, path, value, node, field, lossy):
    whole = yaml.safe_load((CASES / name).read_text("utf-8"))
    text = yaml.safe_dump(changed(whole, path, value)).encode()
    graph = DIFY.load(text)
    assert (node, field, lossy) in {(each.node, each.field, each.lossy) for each in DIFY.remarks(graph)}
    assert yaml.safe_load(dump_over(graph, text)) == yaml.safe_load(text)


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({"type": "strange", "key": "x", "value": 1}, "type"), ({"type": "number", "key": "x", "value": "many"}, "value"),
        ({"type": "array[number]", "key": "x", "value": [None]}, "value"), ({"type": "number", "key": 7, "value": 1}, "key"),
        ({"type": "object", "key": "x"}, "value"), ({}, "type"),
    ],
)  # fmt: skip
def test_a_default_value_that_dify_refuses_is_named(given, refused):
    graph, _ = code_with({"error_strategy": "default-value", "default_value": [given]})
    said = [(each.node, each.field) for each in DIFY.remarks(graph) if each.lossy]
    assert ("2", f"default_value[0].{refused}") in said


def test_a_value_of_the_environment_that_is_refused_is_asked_for():
    whole = yaml.safe_load((CASES / "environment.yml").read_text("utf-8"))
    for variable in whole["workflow"]["environment_variables"]:
        variable["value"] = {"a": ["no text and no number"]}
    start = DIFY.load(yaml.safe_dump(whole).encode()).nodes[0].params
    assert not start.get("defaults")
    assert [name for name, _ in start["variables"] if name.startswith("env.")]


@pytest.mark.parametrize(
    ("name", "value"), [("position", None), ("position", {"x": "left", "y": 1}), ("width", "wide"), ("zIndex", [1])]
)
def test_a_place_on_the_canvas_that_is_no_number_is_a_note(name, value):
    whole = changed(yaml.safe_load((CASES / "environment.yml").read_text("utf-8")), (*IN_FIRST, name), value)
    text = yaml.safe_dump(whole).encode()
    graph = DIFY.load(text)
    said = {(each.node, each.field.partition(".")[0], each.lossy) for each in DIFY.remarks(graph)}
    assert ("1", name, False) in said
    assert not [each for each in DIFY.remarks(graph) if each.lossy]
    assert yaml.safe_load(dump_over(graph, text)) == whole


@pytest.mark.parametrize("name", ["dependencies", "kind"])
def test_null_in_place_of_an_absent_field_is_written_back(name):
    whole = yaml.safe_load((CASES / "environment.yml").read_text("utf-8")) | {name: None}
    text = yaml.safe_dump(whole).encode()
    graph = DIFY.load(text)
    assert not [each for each in DIFY.remarks(graph) if each.lossy]
    assert yaml.safe_load(dump_over(graph, text)) == yaml.safe_load(DIFY.dump(graph)) == whole


def code_with(fields):
    """The workflow of a file whose code node has more fields, and the file."""
    whole = yaml.safe_load((CASES / "iteration-empty.yml").read_text("utf-8"))
    code = next(each for each in whole["workflow"]["graph"]["nodes"] if each["data"]["type"] == "code")
    code["data"] |= fields
    text = yaml.safe_dump(whole).encode()
    return DIFY.load(text), text


@pytest.mark.parametrize("value", ["text", 7, None, {"a": 1}, ["a"]])
def test_a_list_of_mappings_that_is_something_else_is_named_and_written_back(value):
    graph, text = code_with({"variables": value})
    said = [remark for remark in DIFY.remarks(graph) if remark.lossy]
    assert [(remark.node, remark.field) for remark in said] == [("2", "variables")]
    assert yaml.safe_load(dump_over(graph, text)) == yaml.safe_load(text)


NODES = ("workflow", "graph", "nodes")
PLACES = [
    ("agent-react.yml", "2", ["agent_parameters", "tools", "value"], {"a": 1}),
    ("agent-react.yml", "2", ["agent_parameters", "model"], "text"),
    ("aggregator-first-is-none.yml", "4", ["advanced_settings", "groups"], {}),
    ("assign-several.yml", "2", ["items"], None),
    ("http-post.yml", "2", ["body", "data"], 7),
    ("iteration-empty.yml", "2", ["outputs"], ["a"]),
    ("list-filter-and-limit.yml", "3", ["filter_by"], []),
    ("llm-report.yml", "2", ["prompt_template"], "text"),
    ("loop-breaks.yml", "3", ["break_conditions"], {"a": 1}),
    ("retry-llm.yml", "2", ["retry_config"], None),
]
"""File, node, path in the data of the node, and a value that Dify refuses there."""


@pytest.mark.parametrize(("name", "node", "path", "value"), PLACES)
def test_a_container_that_dify_refuses_is_named_with_its_node_and_written_back(name, node, path, value):
    whole = yaml.safe_load((CASES / name).read_text("utf-8"))
    number = [each["id"] for each in whole["workflow"]["graph"]["nodes"]].index(node)
    text = yaml.safe_dump(changed(whole, (*NODES, number, "data", *path), value)).encode()
    graph = DIFY.load(text)
    assert (node, ".".join(path)) in {(each.node, each.field) for each in DIFY.remarks(graph) if each.lossy}
    assert yaml.safe_load(dump_over(graph, text)) == yaml.safe_load(text)


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("environment.yml", ["workflow", "environment_variables"], {"a": 1}),
        ("environment.yml", ["workflow", "features"], "text"),
        ("app-agent-chat.yml", ["model_config", "agent_mode"], "text"),
        ("app-agent-chat.yml", ["model_config", "model"], []),
    ],
)  # fmt: skip
def test_a_container_around_the_nodes_that_is_something_else_is_named_and_written_back(name, path, value):
    whole = yaml.safe_load((CASES / name).read_text("utf-8"))
    text = yaml.safe_dump(changed(whole, tuple(path), value)).encode()
    graph = DIFY.load(text)
    assert ("", ".".join(path)) in {(each.node, each.field) for each in DIFY.remarks(graph) if each.lossy}
    assert yaml.safe_load(dump_over(graph, text)) == yaml.safe_load(text)


@pytest.mark.parametrize(
    ("name", "path"),
    [("retry-llm.yml", ["memory"]), ("retry-llm.yml", ["vision", "configs"]), ("http-get.yml", ["body"])],
)
def test_null_where_dify_takes_it_is_not_named(name, path):
    whole = yaml.safe_load((CASES / name).read_text("utf-8"))
    data = whole["workflow"]["graph"]["nodes"][1]["data"]
    for step in path[:-1]:
        data = data.setdefault(step, {"enabled": False})
    data[path[-1]] = None
    assert not [each for each in DIFY.remarks(DIFY.load(yaml.safe_dump(whole).encode())) if each.lossy]
