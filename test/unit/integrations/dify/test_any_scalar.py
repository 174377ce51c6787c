"""A Dify file with any value replaced by one of another type gives a workflow or issues, and never another error."""

import random
from pathlib import Path

import pytest
import yaml
from amounts import amount
from changed_scalars import changed, containers, sampled, scalars
from dify_runs import run_dify

from operad.flows.formats.operad import OPERAD
from operad.integrations.dify.format import DIFY, dump_over
from operad.runtime.values.errors import OperadError

CASES = Path(__file__).parents[2] / "data" / "dify_cases"
FOLDERS = (CASES, Path(__file__).parents[5] / "shared" / "cases" / "files")
FILES = [file for folder in FOLDERS for file in sorted(folder.glob("*.yml"))]
NOWHERE = "http://127.0.0.1:9"
"""Address at which nothing answers."""


@pytest.mark.parametrize("places", [scalars, containers])
@pytest.mark.parametrize("seed", range(amount(3, 24)))
async def test_any_value_of_another_type_gives_a_workflow_or_issues(seed, places):
    chance = random.Random(seed)  # noqa: S311
    for file in chance.sample(FILES, 3):
        for path, strange, value in sampled(yaml.safe_load(file.read_text("utf-8")), chance, 2, places):
            text = yaml.safe_dump(value, allow_unicode=True).encode()
            try:
                graph = DIFY.load(text)
            except OperadError:
                continue
            told = [*DIFY.check(graph.runnable), *DIFY.losses(graph)]
            said = [*(issue.message for issue in told), *(remark.says for remark in DIFY.remarks(graph))]
            assert all(said), (file, path, strange)
            written = yaml.safe_load(dump_over(graph, text))
            if "app" in value:  # a graph alone stays one
                assert written == yaml.safe_load(DIFY.dump(graph)), (file, path, strange)
            OPERAD.dump(graph)
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
