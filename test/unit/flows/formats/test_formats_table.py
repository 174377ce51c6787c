"""Every format reads a workflow from text, bytes or a file, and writes it."""

import pytest
from small_flows import GREET

from operad.flows.formats.json_text import MAX_BYTES
from operad.flows.formats.table import FORMATS, find_format, read
from operad.runtime.values.errors import InputError, InvalidError

READ = sorted(set(FORMATS) - {"mermaid"})


@pytest.mark.parametrize("name", READ)
def test_a_workflow_is_the_same_from_its_content_and_from_a_file(name, tmp_path):
    found = FORMATS[name]
    content = found.dump(GREET)
    file = tmp_path / f"greet{found.suffix}"
    file.write_bytes(content)
    graph = found.load(content, "greet")
    assert found.load(file) == graph
    assert found.load(file, "greet") == graph
    assert graph.name == "greet"


@pytest.mark.parametrize("name", sorted(set(READ) - {"coze", "comfyui-picture"}))
def test_a_workflow_is_read_from_text(name):
    found = FORMATS[name]
    content = found.dump(GREET)
    assert found.load(content.decode(), "greet") == found.load(content, "greet")


def test_an_archive_is_not_read_from_text():
    with pytest.raises(InvalidError):
        FORMATS["coze"].load("PK\x03\x04 MANIFEST.yml")


def test_a_workflow_without_a_name_is_called_workflow():
    assert FORMATS["worfbench"].load("Node:\n1: greet\nEdge: (START,1) (1,END)").name == "workflow"


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_file_that_is_not_there_is_an_error_of_one_line(name, tmp_path):
    with pytest.raises(InputError, match=r"missing\.x: cannot be read: No such file or directory$"):
        FORMATS[name].load(tmp_path / "missing.x")


def test_a_file_of_experts_is_told_from_one_of_no_format():
    with pytest.raises(InvalidError, match="configures experts; expected a workflow of typed nodes"):
        read(b"operators: []\nexperts: []\n", "team.yaml")


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("a: 1\nb: 2\n", "format", "is YAML, but has neither `experts` nor a workflow; it has: a, b"),
        ("# nothing\n", "format", "is empty"),
        (
            "a: {text: 'It's fine'}\n",
            "yaml",
            "the quoted text ends before \"s fine'}\"; put the whole text in quotes, and double ' in",
        ),
    ],
)
def test_yaml_of_no_format_is_told_by_its_keys_or_its_fault(text, code, message):
    with pytest.raises(InvalidError) as caught:
        read(text.encode(), "f.yaml")
    [issue] = caught.value.issues
    assert issue.code == code
    assert message in issue.message


def test_of_a_file_that_is_too_large_one_byte_more_is_read(tmp_path):
    file = tmp_path / "large.dify.yml"
    with file.open("wb") as large:
        large.truncate(MAX_BYTES * 4)
    with pytest.raises(InvalidError, match="the maximum is"):
        FORMATS["dify"].load(file)


@pytest.mark.parametrize(
    "said", ["a number in (1, 50)", "flowchart TD\\n  A --> B", "IMAGE_1 = Load(a=1)\\nSave(images=IMAGE_1)"]
)
def test_the_words_of_a_prompt_do_not_make_a_workflow_another_format(said):
    text = f'workflow: w\nnodes:\n  1: {{type: start}}\n  2: {{type: llm, after: 1, system: "", user: "{said}"}}\n'
    assert find_format(text.encode()) is FORMATS["operad"]
