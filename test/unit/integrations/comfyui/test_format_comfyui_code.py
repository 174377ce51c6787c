"""ComfyUI workflows as code: lines that are read, and never run."""

import json

import pytest
from amounts import amount
from hypothesis import given, settings
from hypothesis import strategies as st

from operad.integrations.comfyui.formats import (
    COMFYUI_CODE,
    Definitions,
    dump,
    dump_api,
    dump_code,
    executable,
    load,
    restored,
)
from operad.integrations.comfyui.formats.written import title_of
from operad.runtime.values.errors import InvalidError

CLASSES = Definitions.of(
    {
        "Load": {"input": {"required": {"image": [["a.png"]]}}, "output": ["IMAGE", "MASK"]},
        "Save": {"input": {"required": {"image": ["IMAGE"]}}, "output": []},
        "Video Slice": {"input": {"required": {"by.x": ["INT"]}}, "output": ["*"]},
    }
)


def api(**nodes):
    return load(json.dumps({key.replace("_", ":"): each for key, each in nodes.items()}).encode())


def read(code):
    return load(code.encode(), "code")


def test_one_call_a_line_each_after_those_that_it_takes_from():
    graph = api(
        n3={"class_type": "Save", "inputs": {"image": ["n1", 0], "why": "it's\n"}, "_meta": {"title": "Save it"}},
        n1={"class_type": "Load", "inputs": {"image": "b.png"}},
        n_2={"class_type": "Video Slice", "inputs": {"by.x": 1, "b.y": ["n1", 1], "import": ["n1", 5]}},
    )
    assert dump_code(graph, CLASSES).splitlines() == [
        "IMAGE_1, MASK_1 = Load(image='b.png')  # n1",
        r"""Save(why="it's\n", image=IMAGE_1)  # n3 Save it""",
        "VALUE_1 = Video_Slice('Video Slice', **{'by.x': 1, 'b.y': MASK_1, 'import': IMAGE_1[5]})  # n:2",
    ]
    assert json.loads(dump_api(read(dump_code(graph, CLASSES)))) == json.loads(dump_api(graph))


def test_without_definitions_the_links_say_how_many_outputs_there_are():
    graph = api(a={"class_type": "A"}, b={"class_type": "B", "inputs": {"x": ["a", 2]}})
    assert dump_code(graph, Definitions()).splitlines() == ["VALUE_1, VALUE_2, VALUE_3 = A()  # a", "B(x=VALUE_3)  # b"]


def test_a_model_writes_without_ids_and_over_lines():
    graph = read("IMAGE_1 = Load(\n  image='a',\n) # Load\nIMAGE_3 = Load(image='b') # Load\nSave(image=IMAGE_3)")
    assert [(spec.id, spec.type, spec.params) for spec in graph.nodes] == [
        ("1", "Load", {"image": "a"}),
        ("2", "Load", {"image": "b"}),
        ("3", "Save", {}),
    ]
    assert [(edge.source, edge.target, edge.port, edge.input) for edge in graph.edges] == [("2", "3", 0, "image")]


def test_a_variable_is_what_was_last_assigned_to_it():
    graph = read("A_1 = A()\nA_1 = A(x=A_1)\nB(x=A_1)")
    assert [(edge.source, edge.target) for edge in graph.edges] == [("1", "2"), ("2", "3")]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("A(x=open('f'))", "line 1: x: must be a literal or a variable"),
        ("A(x=[y])", "x: must be a literal"),
        ("A(x=1 + 1)", "x: must be a literal"),
        ("A(x=f'{y}')", "x: must be a literal"),
        ("A(x=b'1')", "x: must be a text"),
        ("A(x={1: 2})", "x: must be a text"),
        ("A(x=(1, 2))", "x: must be a text"),
        ("A(x=1e999)", "x: must be a text"),
        ("A(x=1, **{'x': 2})", "x: is given twice"),
        ("A(1)", "give every input by its name"),
        ("A('B')", "give every input by its name"),
        ("A(**b)", "must be followed by an object"),
        ("A(**{b: 1})", "must be followed by an object"),
        ("a.b()", "must call a class by its name"),
        ("__import__('os').system('x')", "must call a class by its name"),
        ("x = 1", "must be one call"),
        ("import os", "must be one call"),
        ("a[0] = A()", "must be one call"),
        ("a, b[0] = A()", "must assign to plain variables"),
        ("A(", "is not valid Python"),
        ("A()\0", "source code string cannot contain null bytes"),
        ("a = " + "-" * 100_000 + "1", "is not valid Python that can be read: MemoryError"),
        ("# nothing", "holds no calls"),
    ],
)
def test_what_is_not_a_call_is_refused(code, message):
    with pytest.raises(InvalidError, match="format") as raised:
        read(code)
    assert message in str(raised.value)
    assert "line None" not in str(raised.value)


def test_every_bad_line_is_told():
    with pytest.raises(InvalidError) as raised:
        read("A(x=y())\nB()\n\nC(x=1 + 1, y=2 * 2)")
    assert [issue.where for issue in raised.value.issues] == ["line 1", "line 4", "line 4"]


names = st.one_of(st.sampled_from(["x", "a.b", "class", "", "Ünï", "ﬁ", "__value__"]), st.text(max_size=8))
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
    max_leaves=6,
)


@st.composite
def prompts(draw):
    """The server's form of any graph, in which a list that is a value is wrapped."""
    ids = draw(st.lists(names, min_size=1, max_size=5, unique=True))
    links = st.tuples(st.sampled_from(ids), st.integers(-2, 80)).map(list)
    wrapped = values.map(lambda value: {"__value__": value} if isinstance(value, list) else value)
    found = {}
    for node_id in ids:
        found[node_id] = {
            "class_type": draw(st.sampled_from(["Reroute", "Note"]) | names.filter(bool)),
            "inputs": draw(st.dictionaries(names.filter(bool), st.one_of(wrapped, links), max_size=4)),
        }
        if draw(st.booleans()):
            found[node_id]["_meta"] = {"title": draw(st.text(max_size=12))}
        if draw(st.booleans()):
            found[node_id] |= draw(
                st.dictionaries(st.sampled_from(["_meta", "is_changed", "is_new"]), values, max_size=2)
            )
    return found


@settings(max_examples=amount(10, 100))
@given(prompts())
def test_any_graph_comes_back_from_its_code(prompt):
    if {"nodes", "links"} & prompt.keys():
        return
    graph = load(json.dumps(prompt).encode())
    assert COMFYUI_CODE.losses(graph) == []
    assert json.loads(dump_api(graph)) == prompt
    assert json.loads(dump_api(read(dump_code(graph, Definitions())))) == prompt
    assert json.loads(dump_api(read(COMFYUI_CODE.dump(graph).decode()))) == prompt


def test_data_beside_class_and_inputs_stand_in_the_comment():
    graph = api(a={"class_type": "A", "is_changed": ["x"], "_meta": {"title": "B"}}, b={"class_type": "Reroute"})
    code = dump_code(graph, Definitions())
    assert code == 'A()  # a {"is_changed": ["x"], "_meta": {"title": "B"}}\nReroute()  # b {}\n'
    assert [spec.extra for spec in read(code).nodes] == [spec.extra for spec in graph.nodes]
    assert [title_of(spec) for spec in read("A() # 1 {a|b}\nA() # 2 [1]").nodes] == ["{a|b}", "[1]"]


def test_what_code_cannot_hold_is_told():
    graph = api(a={"class_type": "A", "inputs": {"x": ["gone", 0]}, "is_changed": "y"})
    assert [issue.where for issue in COMFYUI_CODE.losses(graph)] == ["gone → a"]


# Real files


def test_every_real_file_comes_back_from_its_code(shared_data):
    known = Definitions.of(json.loads((shared_data / "comfyui" / "object_info.json").read_bytes()))
    for file in sorted((shared_data / "comfyui" / "workflows").iterdir()):
        graph = load(file.read_bytes(), file.name)
        again = restored(read(dump_code(graph, known)), graph)
        assert json.dumps(json.loads(dump(again, known))) == json.dumps(json.loads(file.read_bytes())), file.name
        run = executable(graph, known)
        if run.nodes:
            assert json.loads(dump_api(read(dump_code(run, known)))) == json.loads(dump_api(run)), file.name
    for file in sorted((shared_data / "comfyui" / "api").iterdir()):
        graph = load(file.read_bytes(), file.name)
        for definitions in (known, Definitions()):
            assert json.loads(dump_api(read(dump_code(graph, definitions)))) == json.loads(file.read_bytes()), file.name


def test_a_change_in_the_code_is_a_change_in_the_page(shared_data):
    known = Definitions.of(json.loads((shared_data / "comfyui" / "object_info.json").read_bytes()))
    graph = load((shared_data / "comfyui" / "workflows" / "default.json").read_bytes())
    code = dump_code(graph, known).replace("steps=20", "steps=30").replace("width=512", "width=640")
    before, after = json.loads(dump(graph)), json.loads(dump(restored(read(code), graph), known))
    changed = {
        each["type"]: each["widgets_values"]
        for old, each in zip(before["nodes"], after["nodes"], strict=True)
        if old != each
    }
    assert changed == {
        "KSampler": [*changed["KSampler"][:2], 30, *changed["KSampler"][3:]],
        "EmptyLatentImage": [640, 512, 1],
    }
    assert before["links"] == after["links"]
