"""A Dify file with any scalar replaced by a value of another type gives a workflow or issues, and never another error."""

import random
from pathlib import Path

import pytest
import yaml
from changed_scalars import sampled
from dify_runs import run_dify

from operad.flows.formats.operad import OPERAD
from operad.integrations.dify.format import DIFY, dump_over
from operad.runtime.values.errors import OperadError

CASES = Path(__file__).parents[2] / "data" / "dify_cases"
FOLDERS = (CASES, Path("/work/shared/cases/files"))
FILES = [file for folder in FOLDERS for file in sorted(folder.glob("*.yml"))]
NOWHERE = "http://127.0.0.1:9"
"""Address at which nothing answers."""


@pytest.mark.parametrize("seed", range(12))
async def test_any_scalar_of_another_type_gives_a_workflow_or_issues(seed):
    chance = random.Random(seed)  # noqa: S311
    for file in chance.sample(FILES, 4):
        for path, strange, value in sampled(yaml.safe_load(file.read_text("utf-8")), chance, 2):
            text = yaml.safe_dump(value, allow_unicode=True).encode()
            try:
                graph = DIFY.load(text)
            except OperadError:
                continue
            issues = [*DIFY.check(graph.runnable), *DIFY.remarks(graph), *DIFY.losses(graph)]
            assert issues is not None
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
