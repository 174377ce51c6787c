"""`operad nodes`."""

import json

import jsonschema
import pytest

from operad.operators.nodes import NODE_TYPES

OWN = '''
from pydantic import Field
from operad.operators import NodeOperator, NodeParams, Text, VariableType

class WordCountParams(NodeParams):
    text: Text = Field(description="The text to count the words of.")

class WordCount(NodeOperator[WordCountParams]):
    """Counts the words of a text."""

    type = "word-count"
    params_type = WordCountParams
    gives = "count (number)"

class Other:
    pass
'''


@pytest.fixture
def operad(operad, tmp_path):
    """Runs the command in a folder with a module `own_types`: exit status, stdout, stderr."""
    (tmp_path / "own_types.py").write_text(OWN)
    return operad


def test_each_type_has_a_line(operad):
    status, out, err = operad("nodes")
    assert (status, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == list(NODE_TYPES)


@pytest.mark.parametrize("name", NODE_TYPES)
def test_each_type_has_a_card_and_the_same_as_json(operad, name):
    status, out, _ = operad("nodes", name)
    assert status == 0
    assert out.startswith(f"{name}: ")
    assert "  outputs: " in out
    status, said, _ = operad("nodes", name, "--json")
    card = json.loads(said)
    assert (status, card["type"]) == (0, name)
    jsonschema.Draft202012Validator.check_schema(card["params"])
    assert set(card["params"].get("properties", {})) == set(NODE_TYPES[name].params_type.model_fields)


def test_all_types_are_a_list_as_json(operad):
    status, out, _ = operad("nodes", "--json")
    assert (status, [card["type"] for card in json.loads(out)]) == (0, list(NODE_TYPES))


def test_a_class_of_ones_own_has_a_card_too(operad):
    status, out, _ = operad("nodes", "own_types.WordCount")
    assert (status, out.splitlines()[0]) == (0, "word-count: Counts the words of a text.")
    assert "    text: The text to count the words of." in out
    assert json.loads(operad("nodes", "own_types.WordCount", "--json")[1])["outputs"] == "count (number)"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lmm", "operad: there is no node type 'lmm' (did you mean 'llm'?); `operad nodes` lists them"),
        ("no_such_module.X", "module 'no_such_module' is neither beside this file nor installed"),
        ("own_types.WordCont", "module 'own_types' has no 'WordCont' (did you mean 'WordCount'?)"),
        ("own_types.Other", "own_types.Other is not a subclass of NodeOperator"),
    ],
)
def test_an_unknown_type_exits_2_and_names_the_nearest(operad, name, message):
    status, out, err = operad("nodes", name)
    assert (status, out) == (2, "")
    assert message in err
