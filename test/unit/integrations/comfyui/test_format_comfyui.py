"""ComfyUI's two file formats: what the page saves comes back as it was, and becomes what the server runs."""

import json
from dataclasses import replace

import pytest

from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.integrations.comfyui.formats import (
    COMFYUI,
    COMFYUI_API,
    COMFYUI_CODE,
    Definitions,
    dump,
    dump_api,
    dump_code,
    executable,
    formats,
    load,
)
from operad.runtime.values.errors import InvalidError

CLASSES = Definitions.of(
    {
        "Load": {"input": {"required": {"image": [["a.png"], {"image_upload": True}]}}, "output": ["IMAGE", "MASK"]},
        "Paint": {
            "input": {
                "required": {"style": [["oil", "ink"]], "clip": ["CLIP"], "seed": ["INT", {"default": 7}]},
                "optional": {"text": ["STRING", {"forceInput": True}], "size": ["INT", {"default": 64}]},
            },
            "input_order": {"required": ["clip", "seed", "style"], "optional": ["text", "size"]},
            "output": ["IMAGE"],
        },
        "Mix": {"input": {"required": {"a": ["IMAGE"], "b": ["IMAGE"], "by": ["FLOAT", {}]}}, "output": ["IMAGE"]},
        "Save": {"input": {"required": {"image": ["IMAGE"]}}, "output": [], "output_node": True},
    }
)


def node(id, type, inputs=(), outputs=(), **rest):
    """A node of the page. Inputs are (name, type, link), outputs are types."""
    slots = [{"name": name, "type": kind, "link": link} for name, kind, link in inputs]
    return {"id": id, "type": type, "inputs": slots, "outputs": [{"type": kind} for kind in outputs], **rest}


def page(nodes, links=(), **rest):
    return json.dumps({"nodes": nodes, "links": list(links), **rest}).encode()


def inputs_of(content, definitions=CLASSES):
    """The inputs of each node as the server gets them."""
    return {key: each["inputs"] for key, each in json.loads(dump_api(load(content), definitions)).items()}


@pytest.mark.parametrize(
    ("written", "inputs"),
    [
        ({"widgets_values": [5, "fixed", "ink", 9]}, {"seed": 5, "style": "ink", "size": 9}),
        ({"widgets_values": [5, True, "ink"]}, {"seed": 5, "style": "ink"}),
        ({"widgets_values": [5, "ink", 9]}, {"seed": 5, "style": "ink", "size": 9}),
        ({"widgets_values": []}, {"seed": 7, "style": "oil"}),
        ({"widgets_values": {"style": "ink"}}, {"seed": 7, "style": "ink"}),
        (
            {"widgets_values": [3, "x"], "widgets_values_named": {"size": 3, "style": "x"}},
            {"seed": 7, "style": "x", "size": 3},
        ),
        (
            {
                "inputs": [{"name": name, "widget": {"name": name}, "link": None} for name in ("size", "style")],
                "widgets_values": [3, "x"],
            },
            {"seed": 7, "style": "x", "size": 3},
        ),
    ],
)
def test_values_get_their_names(written, inputs):
    assert inputs_of(page([{"id": 1, "type": "Paint", **written}])) == {"1": inputs}


def test_a_class_that_takes_files_has_one_more_value():
    assert inputs_of(page([node(1, "Load", widgets_values=["b.png", "image"])])) == {
        "1": {"image": "b.png", "upload": "image"}
    }


def test_values_of_an_unknown_class_keep_the_names_that_the_file_tells():
    named = {"id": 2, "type": "New", "widgets_values": [1], "widgets_values_named": {"by": 1}}
    graph = load(page([{"id": 1, "type": "New", "widgets_values": [1]}, named]))
    assert [spec.params for spec in graph.nodes] == [{}, {"by": 1}]
    assert [issue.where for issue in COMFYUI_API.losses(graph) if "--object-info" in issue.message] == ["1"]


LOAD, SAVE = node(1, "Load", outputs=["IMAGE", "MASK"]), node(9, "Save", [("image", "IMAGE", 9)])


@pytest.mark.parametrize(
    ("between", "links", "image"),
    [
        ([], [[9, 1, 0, 9, 0, "IMAGE"]], ["1", 0]),
        ([node(2, "Reroute", [("", "*", 1)], ["IMAGE"])], [[1, 1, 0, 2, 0, "*"], [9, 2, 0, 9, 0, "*"]], ["1", 0]),
        (
            [node(2, "Mix", [("a", "IMAGE", 1)], ["IMAGE"], mode=4)],
            [[1, 1, 0, 2, 0, "IMAGE"], [9, 2, 0, 9, 0, "IMAGE"]],
            ["1", 0],
        ),
        (
            [node(2, "Mix", [("by", "FLOAT", None), ("a", "IMAGE", 1)], ["IMAGE"], mode=4)],
            [[1, 1, 0, 2, 1, "IMAGE"], [9, 2, 0, 9, 0, "IMAGE"]],
            ["1", 0],
        ),
        (
            [node(2, "Mix", [("by", "FLOAT", 1)], ["IMAGE"], mode=4)],
            [[1, 1, 0, 2, 0, "FLOAT"], [9, 2, 0, 9, 0, "IMAGE"]],
            None,
        ),
        ([node(2, "Mix", [("a", "IMAGE", 1)], ["IMAGE"], mode=2)], [[9, 2, 0, 9, 0, "IMAGE"]], None),
        ([node(2, "PrimitiveNode", [], ["IMAGE"], widgets_values=["x", "fixed"])], [[9, 2, 0, 9, 0, "IMAGE"]], "x"),
        ([node(2, "Note"), node(3, "MarkdownNote")], [[9, 1, 1, 9, 0, "IMAGE"]], ["1", 1]),
        (
            [
                node(2, "SetNode", [("MASK", "MASK", 1)], ["MASK"], widgets_values=["mask"]),
                node(3, "SetNode", [("IMAGE", "IMAGE", 2)], ["IMAGE"], widgets_values=["image"]),
                node(4, "GetNode", [], ["IMAGE"], widgets_values=["image"]),
            ],
            [[1, 1, 1, 2, 0, "MASK"], [2, 1, 0, 3, 0, "IMAGE"], [9, 4, 0, 9, 0, "IMAGE"]],
            ["1", 0],
        ),
        ([node(2, "GetNode", [], ["IMAGE"], widgets_values=["gone"])], [[9, 2, 0, 9, 0, "IMAGE"]], None),
    ],
    ids="straight reroute bypass-same-place bypass-first-of-type bypass-nothing-fits muted primitive notes getter "
    "getter-without-setter".split(),
)
def test_what_does_not_run_is_taken_out(between, links, image):
    inputs = inputs_of(page([LOAD, *between, SAVE], links))
    assert inputs.keys() == {"1", "9"}
    assert inputs["9"].get("image") == image


def test_nodes_of_the_page_in_code_do_not_run_and_keep_their_titles():
    code = (
        "IMAGE_1, MASK_1 = Load()  # 1 Load\n"
        "Note(text='Mind the light.')  # 2 To do\n"
        "VALUE_1 = PrimitiveNode(value=0.5)  # 3 PrimitiveNode\n"
        "VALUE_2 = Reroute(x=IMAGE_1)  # 4 Reroute\n"
        "Mix(by=VALUE_1, a=VALUE_2)  # 5 Mix\n"
    )
    graph = load(code.encode())
    assert inputs_of(code.encode()) == {"1": {}, "5": {"by": 0.5, "a": ["1", 0]}}
    assert [loss.where for loss in formats(CLASSES)[2].losses(graph)] == ["2", "3", "4"]
    notes = [each for each in json.loads(dump(graph, CLASSES))["nodes"] if each["type"] == "Note"]
    assert [(note["title"], note["widgets_values"], note["inputs"]) for note in notes] == [
        ("To do", ["Mind the light."], [])
    ]
    assert dump_code(load(dump(graph, CLASSES)), CLASSES).splitlines()[1] == code.splitlines()[1]


def subgraph(instance, links=(), outer=()):
    """A file with a subgraph that mixes its inputs `first` and `second`."""
    inner = {
        "id": "mixer",
        "name": "Mixer",
        "inputs": [{"name": "first"}, {"name": "second"}, {"name": "by"}],
        "outputs": [{"name": "IMAGE"}],
        "nodes": [
            {
                "id": 5,
                "type": "Mix",
                "inputs": [{"name": name} for name in ("a", "b", "by")],
                "outputs": [{"type": "IMAGE"}],
                "widgets_values": [0.5],
            }
        ],
        "links": [
            {"id": 1, "origin_id": -10, "origin_slot": 0, "target_id": 5, "target_slot": 0, "type": "IMAGE"},
            {"id": 2, "origin_id": -10, "origin_slot": 1, "target_id": 5, "target_slot": 1, "type": "IMAGE"},
            {"id": 3, "origin_id": -10, "origin_slot": 2, "target_id": 5, "target_slot": 2, "type": "FLOAT"},
            {"id": 4, "origin_id": 5, "origin_slot": 0, "target_id": -20, "target_slot": 0, "type": "IMAGE"},
        ],
    }
    nodes = [LOAD, node(4, "mixer", outputs=["IMAGE"]) | instance, SAVE, *outer]
    return page(nodes, [[9, 4, 0, 9, 0, "IMAGE"], *links], definitions={"subgraphs": [inner]})


def test_a_subgraph_is_put_in_and_its_inputs_go_by_name():
    swapped = {"inputs": [{"name": "second", "link": 1}, {"name": "first", "link": 2}]}
    inputs = inputs_of(subgraph(swapped, [[1, 1, 0, 4, 0, "IMAGE"], [2, 1, 1, 4, 1, "IMAGE"]]))
    assert inputs["4:5"] == {"a": ["1", 1], "b": ["1", 0], "by": 0.5}
    assert inputs["9"] == {"image": ["4:5", 0]}


@pytest.mark.parametrize(
    "instance",
    [
        {"properties": {"proxyWidgets": [["5", "by"]]}, "widgets_values": [0.9]},
        {"properties": {"proxyWidgets": [["-1", "by"]]}, "widgets_values": [0.9]},
        {"widgets_values": [0.9], "widgets_values_named": {"by": 0.9}},
    ],
)
def test_what_a_subgraph_is_put_in_for_sets_values_within(instance):
    assert inputs_of(subgraph(instance))["4:5"] == {"by": 0.9}


def inlet(number, slot, target, target_slot):
    """A link from an input of a subgraph to a node within."""
    ends = {"origin_id": -10, "origin_slot": slot, "target_id": target, "target_slot": target_slot}
    return {"id": number, "type": "*", **ends}


def shared(instance, link_ids=(1, 2)):
    """A file with a subgraph of which `text` feeds a widget and a socket, `by` two widgets, `deep` a subgraph within."""
    widget = {"name": "by", "widget": {"name": "by"}}
    inner = {
        "id": "inner",
        "inputs": [{"name": "size"}],
        "nodes": [{"id": 1, "type": "Paint", "inputs": [{"name": "size", "widget": {"name": "size"}}]}],
        "links": [inlet(1, 0, 1, 0)],
    }
    outer = {
        "id": "outer",
        "inputs": [{"name": "image"}, {"name": "deep"}, {"name": "by", "linkIds": [*link_ids]}, {"name": "text"}],
        "nodes": [
            {"id": 5, "type": "Mix", "inputs": [{"name": "a"}, widget], "widgets_values": [0.1]},
            {"id": 6, "type": "Mix", "inputs": [{"name": "a"}, widget], "widgets_values": [0.2]},
            {"id": 7, "type": "inner", "inputs": [{"name": "size"}]},
            {"id": 8, "type": "Paint", "inputs": [{"name": "text"}, {"name": "style", "widget": {"name": "style"}}]},
        ],
        "links": [
            inlet(1, 2, 5, 1),
            inlet(2, 2, 6, 1),
            inlet(3, 0, 5, 0),
            inlet(4, 1, 7, 0),
            inlet(5, 3, 8, 0),
            inlet(6, 3, 8, 1),
        ],
    }
    return page([LOAD, node(4, "outer") | instance], definitions={"subgraphs": [outer, inner]})


def test_values_of_promoted_widgets_stand_in_the_order_of_the_inputs_that_fill_a_widget():
    listed = {"inputs": [{"name": "by", "widget": {"name": "by"}}], "widgets_values": [9, 0.7, "ink"]}
    inputs = inputs_of(shared(listed))
    assert (inputs["4:5"]["by"], inputs["4:6"]["by"]) == (0.7, 0.7)
    assert inputs["4:7:1"]["size"] == 9
    assert (inputs["4:8"]["text"], inputs["4:8"]["style"]) == ("ink", "ink")


@pytest.mark.parametrize("proxied", ["5", "6"])
def test_a_promoted_widget_sets_all_that_its_input_feeds(proxied):
    inputs = inputs_of(shared({"properties": {"proxyWidgets": [[proxied, "by"]]}, "widgets_values": [0.7]}))
    assert (inputs["4:5"]["by"], inputs["4:6"]["by"]) == (0.7, 0.7)


@pytest.mark.parametrize(("link_ids", "by"), [([1, 2], 0.1), ([2, 1], 0.2)])
def test_an_input_that_feeds_several_widgets_takes_the_value_of_the_first(link_ids, by):
    inputs = inputs_of(shared({}, link_ids))
    assert (inputs["4:5"]["by"], inputs["4:6"]["by"]) == (by, by)


def test_what_the_page_saved_comes_back_with_its_keys_in_order():
    content = subgraph({"color": "#fff", "size": [1, 2.5]}, [[7, 99, 0, 98, 3, "LOST"]])
    assert json.dumps(json.loads(dump(load(content)))) == content.decode()


def test_only_what_was_changed_is_written_otherwise():
    content = page([node(1, "Load", outputs=["IMAGE"]), SAVE | {"inputs": [{"name": "image", "link": None}]}])
    graph = load(content)
    written = json.loads(dump(replace(graph, edges=[Edge("1", "9", 0, "image")])))
    assert written["links"] == [[1, 1, 0, 9, 0, "IMAGE"]]
    assert written["nodes"][0]["outputs"] == [{"type": "IMAGE", "links": [1]}]
    assert written["nodes"][1]["inputs"] == [{"name": "image", "link": 1}]
    back = load(json.dumps(written).encode())
    cut = json.loads(dump(replace(back, edges=[])))
    assert (cut["links"], cut["nodes"][1]["inputs"]) == ([], [{"name": "image", "link": None}])
    assert cut["nodes"][0]["outputs"] == [{"type": "IMAGE", "links": []}]


def test_a_changed_value_takes_its_place():
    graph = load(page([{"id": 1, "type": "Paint", "widgets_values": [5, "fixed", "ink"]}]))
    changed = replace(graph, nodes=[replace(graph.nodes[0], params={"style": "oil"})])
    assert json.loads(dump(changed, CLASSES))["nodes"][0]["widgets_values"] == [5, "fixed", "oil"]
    assert [issue.where for issue in COMFYUI.losses(changed)] == ["1"]


def test_a_graph_from_elsewhere_is_laid_out():
    graph = NodeGraph(
        [NodeSpec("a", "Load", {"image": "x.png"}), NodeSpec("2", "Paint", {"seed": 3}), NodeSpec("s", "Save")],
        [Edge("a", "2", 1, "text"), Edge("2", "s", 0, "image")],
    )
    written = json.loads(dump(graph, CLASSES))
    assert [each["id"] for each in written["nodes"]] == [3, 2, 4]
    assert [each["pos"][0] for each in written["nodes"]] == [0, 380, 760]
    assert [each["widgets_values"] for each in written["nodes"]] == [["x.png"], [3, "fixed", "oil"], []]
    assert written["links"] == [[1, 3, 1, 2, 1, "MASK"], [2, 2, 0, 4, 0, "IMAGE"]]
    assert (written["last_node_id"], written["last_link_id"]) == (4, 2)
    assert inputs_of(json.dumps(written).encode()) == {
        "3": {"image": "x.png"},
        "2": {"seed": 3, "style": "oil", "text": ["3", 1]},
        "4": {"image": ["2", 0]},
    }


def test_the_form_of_the_server_comes_back():
    data = {
        "1": {"class_type": "A", "inputs": {"x": [[1]], "y": {"__value__": ["2", 0]}, "z": {"k": None}}, "_meta": {}},
        "2": {"class_type": "Note", "inputs": {"x": ["1", 0]}, "is_changed": [None]},
    }
    data["1"]["inputs"].pop("x")
    graph = load(json.dumps(data).encode())
    assert graph.nodes[0].params == {"y": ["2", 0], "z": {"k": None}}
    assert executable(graph, CLASSES) is graph
    assert json.loads(dump_api(graph)) == data


def test_what_is_no_number_is_read_as_null():
    assert load(b'{"1": {"class_type": "A", "inputs": {"x": NaN, "y": 1e999}}}').nodes[0].params == {
        "x": None,
        "y": None,
    }


def test_everything_wrong_with_a_file_is_said_at_once():
    bad = {
        "1": {"class": "A"},
        "2": {"class_type": "A", "inputs": {"x": [4, 0], "y": [1, 2, 3]}},
        "3": 4,
        "4": {"class_type": "A", "inputs": []},
    }
    with pytest.raises(InvalidError) as raised:
        load(json.dumps(bad).encode())
    assert [(issue.code, issue.where) for issue in raised.value.issues] == [
        ("misshapen-node", "1"),
        ("misshapen-link", "2"),
        ("misshapen-link", "2"),
        ("misshapen-node", "3"),
        ("misshapen-node", "4"),
    ]
    with pytest.raises(InvalidError) as raised:
        load(page([{"id": True, "type": 3}, 5], [[1, 2], {"id": 1}]))
    assert [issue.where for issue in raised.value.issues] == [
        "nodes[0]",
        "nodes[0]",
        "nodes[1]",
        "links[0]",
        "links[1]",
    ]


def test_two_nodes_of_one_id_are_not_written_as_one():
    graph = load(page([node(1, "Load"), node(1, "Save")]))
    assert len(json.loads(dump(graph))["nodes"]) == 2
    with pytest.raises(InvalidError, match="duplicate-id"):
        dump_api(graph)


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (page([LOAD]), COMFYUI),
        (b'{"1": {"class_type": "A", "inputs": {}}}', COMFYUI_API),
        (b"A_1 = A(x=1)\n", COMFYUI_CODE),
        (b'{"nodes": [], "edges": []}', None),
        (b"print('x')\nimport os\n", None),
        (b"name: a flow\n", None),
        (b"\xff", None),
    ],
)
def test_a_form_is_known_by_its_content(content, form):
    assert [each for each in (COMFYUI, COMFYUI_API, COMFYUI_CODE) if each.is_it(content)] == ([form] if form else [])


def test_what_is_of_other_platforms_is_a_loss():
    graph = NodeGraph(
        [NodeSpec("1", "llm", parent="loop", extra={"dify": 1}), NodeSpec("2", "end", "text")], [Edge("1", "2")]
    )
    assert [issue.where for issue in COMFYUI.losses(graph)] == ["1", "1", "2", "1 → 2"]


def test_broken_definitions_are_left_out():
    found = Definitions.of({"A": 1, "B": {"input": {"required": {"x": 5, "y": ["INT"]}}, "output": [["a"], 3]}})
    assert (list(found.classes), list(found.classes["B"].inputs)) == (["B"], ["y"])
    assert found.classes["B"].outputs == ["COMBO", "*"]
    assert [issue.where for issue in found.issues] == ["A", "B"]
    assert not Definitions.of([])


# Real files


def test_every_real_file_comes_back_exactly(shared_data):
    known = Definitions.of(json.loads((shared_data / "comfyui" / "object_info.json").read_bytes()))
    files = sorted((shared_data / "comfyui" / "workflows").iterdir())
    assert len(files) == 37
    for file in files:
        data = json.loads(file.read_bytes())
        for definitions in (Definitions(), known):
            assert json.dumps(json.loads(dump(load(file.read_bytes()), definitions))) == json.dumps(data), file.name


def test_every_real_file_becomes_what_a_real_server_took(shared_data):
    known = Definitions.of(json.loads((shared_data / "comfyui" / "object_info.json").read_bytes()))
    files = sorted((shared_data / "comfyui" / "api").iterdir())
    assert len(files) == 32
    for file in files:
        graph = load((shared_data / "comfyui" / "workflows" / file.name).read_bytes())
        assert json.loads(dump_api(graph, known)) == json.loads(file.read_bytes()), file.name
        code = formats(known)[2].dump(graph)
        assert json.loads(dump_api(load(code), known)) == json.loads(file.read_bytes()), file.name
        again = load(file.read_bytes())
        assert json.loads(dump_api(again)) == json.loads(file.read_bytes()), file.name
        page_of_it = dump(again, known)
        assert dump(load(page_of_it), known) == page_of_it
