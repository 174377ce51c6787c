"""Files of ComfyUI with faults of every kind: they are read or refused, and nothing else happens."""

import json
import random

import pytest
from amounts import amount

from operad.integrations.comfyui.formats import (
    COMFYUI,
    COMFYUI_API,
    COMFYUI_CODE,
    Definitions,
    check,
    dump,
    dump_api,
    dump_code,
    executable,
    load,
    restored,
)
from operad.runtime.values.errors import InvalidError

ODD = [None, True, 0, -1, 10**30, 1.5, "", "7", "\ud800", [], {}, [[]], [1, 0], ["1", 0], {"a": 1}, "fixed", "*", -10]


def changed(value, random):
    """A copy of parsed JSON with one thing in it changed, dropped, or put elsewhere."""
    value = json.loads(json.dumps(value))
    places = []
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        keys = list(inner) if isinstance(inner, dict) else range(len(inner))
        places += [(inner, key) for key in keys]
        waiting += [inner[key] for key in keys if isinstance(inner[key], dict | list)]
    if not places:
        return value
    holder, key = random.choice(places)
    match random.randrange(4):
        case 0:
            holder[key] = random.choice(ODD)
        case 1:
            del holder[key]
        case 2:
            other, where = random.choice(places)
            holder[key] = json.loads(json.dumps(other[where]))
        case _ if isinstance(holder, list):
            holder += [holder[key]] * 3
        case _:
            holder["odd.name " * random.randrange(1, 3)] = holder.pop(key)
    return value


def mutations(seeds, number, start=0):
    """Broken files: some by a byte, some by what they say."""
    for seed in range(start, start + number):
        chance = random.Random(seed)  # noqa: S311
        content = chance.choice(seeds)
        if chance.random() < 0.6 and content.lstrip().startswith(b"{"):
            data = json.loads(content)
            for _ in range(chance.randrange(1, 5)):
                data = changed(data, chance)
            yield seed, json.dumps(data).encode()
            continue
        broken = bytearray(content)
        for _ in range(chance.randrange(1, 6)):
            place = chance.randrange(len(broken))
            match chance.randrange(3):
                case 0:
                    broken[place] = chance.choice(b"\"{}[],:-0123456789aeE#=()\\\n\t\x00\xff*';")
                case 1:
                    del broken[place : place + chance.randrange(1, 40)]
                case _:
                    broken[place:place] = broken[place : place + chance.randrange(1, 40)]
        yield seed, bytes(broken)


def use(content, definitions):
    """Everything that can be done with a file; a file that cannot be used is refused with issues."""
    try:
        graph = load(content, "file")
    except InvalidError:
        return
    for form in (COMFYUI, COMFYUI_API, COMFYUI_CODE):
        form.is_it(content)
        form.losses(graph)
    for known in (Definitions(), definitions):
        check(graph, known)
        written = dump(graph, known)
        assert dump(load(written, "file"), known) == written
        code = dump_code(graph, known)
        dump(restored(load(code.encode(), "file"), graph), known) if graph.nodes else None
        try:
            run = dump_api(graph, known)
        except InvalidError:
            continue
        if json.loads(run):
            assert dump_api(load(run, "file")) == run
            lines = dump_code(executable(load(run, "file"), known), known)
            if not COMFYUI_CODE.losses(load(run, "file")):
                assert json.loads(dump_api(load(lines.encode(), "file"))) == json.loads(run)


@pytest.fixture(scope="module")
def seeds():
    return [SMALL_UI, SMALL_API, SMALL_CODE]


SUBGRAPH = {
    "id": "in-1",
    "name": "Inner",
    "inputs": [{"name": "text", "type": "STRING", "linkIds": [1]}],
    "outputs": [{"name": "IMAGE", "type": "IMAGE", "linkIds": [2]}],
    "nodes": [
        {
            "id": 3,
            "type": "Paint",
            "inputs": [{"name": "text", "type": "STRING", "widget": {"name": "text"}, "link": 1}],
            "outputs": [{"name": "IMAGE", "type": "IMAGE", "links": [2]}],
            "widgets_values": ["inner", 5, "fixed"],
        }
    ],
    "links": [
        {"id": 1, "origin_id": -10, "origin_slot": 0, "target_id": 3, "target_slot": 0, "type": "STRING"},
        {"id": 2, "origin_id": 3, "origin_slot": 0, "target_id": -20, "target_slot": 0, "type": "IMAGE"},
    ],
}
SMALL_UI = json.dumps(
    {
        "last_node_id": 7,
        "last_link_id": 9,
        "nodes": [
            {
                "id": 1,
                "type": "in-1",
                "inputs": [{"name": "text", "type": "STRING", "widget": {"name": "text"}, "link": None}],
                "outputs": [{"name": "IMAGE", "type": "IMAGE", "links": [4]}],
                "properties": {"proxyWidgets": [["-1", "text"], ["3", "seed"]]},
                "widgets_values": ["outer", 6],
            },
            {
                "id": 2,
                "type": "Reroute",
                "inputs": [{"name": "", "type": "*", "link": 4}],
                "outputs": [{"name": "", "type": "IMAGE", "links": [5]}],
            },
            {
                "id": 4,
                "type": "Blur",
                "mode": 4,
                "inputs": [{"name": "image", "type": "IMAGE", "link": 5}],
                "outputs": [{"name": "IMAGE", "type": "IMAGE", "links": [6]}],
                "widgets_values_named": {"by": 3},
                "widgets_values": [3],
            },
            {
                "id": 5,
                "type": "Save",
                "pos": [1, 2],
                "inputs": [{"name": "image", "type": "IMAGE", "link": 6}],
                "widgets_values": {"prefix": "a"},
            },
            {"id": 6, "type": "Note", "widgets_values": ["hello"]},
            {
                "id": 7,
                "type": "PrimitiveNode",
                "outputs": [{"name": "INT", "type": "INT", "links": []}],
                "widgets_values": [3, "fixed"],
            },
        ],
        "links": [[4, 1, 0, 2, 0, "IMAGE"], [5, 2, 0, 4, 0, "*"], [6, 4, 0, 5, 0, "IMAGE"]],
        "definitions": {"subgraphs": [SUBGRAPH]},
        "version": 0.4,
    }
).encode()
SMALL_API = json.dumps(
    {
        "1": {"class_type": "Paint", "inputs": {"text": "a", "seed": 1}, "_meta": {"title": "A title"}},
        "2": {"class_type": "Odd Class", "inputs": {"a.b": ["1", 0], "list": {"__value__": ["1", 0]}}},
        "9:3": {"class_type": "Save", "inputs": {"image": ["2", 7]}, "_meta": {"title": "Paint"}},
    }
).encode()
SMALL_CODE = b"""IMAGE_1 = Paint(text='a', seed=-1)  # 1 A title
A_1, B_1 = Odd_Class('Odd Class', image=IMAGE_1, **{'a.b': {'c': [1.5, None]}})  # 2 "x"
Save(image=B_1[7], other=NOWHERE)
"""
CLASSES = {
    "Paint": {
        "input": {"required": {"text": ["STRING", {}], "seed": ["INT", {"default": 0, "min": 0, "max": 99}]}},
        "output": ["IMAGE"],
    },
    "Blur": {"input": {"required": {"image": ["IMAGE"], "by": ["INT", {"default": 1}]}}, "output": ["IMAGE"]},
    "Save": {"input": {"required": {"image": ["IMAGE"], "prefix": ["STRING"]}}, "output": [], "output_node": True},
}


def test_whatever_is_broken_in_a_small_file_it_is_read_or_refused(seeds):
    definitions = Definitions.of(CLASSES)
    for _, content in mutations(seeds, 400):
        use(content, definitions)


def test_whatever_is_broken_in_a_real_file_it_is_read_or_refused(shared_data):
    folder = shared_data / "comfyui"
    definitions = Definitions.of(json.loads((folder / "object_info.json").read_bytes()))
    files = [(folder / "workflows" / f"{name}.json").read_bytes() for name in ("default", "image_anima_preview")]
    for _, content in mutations([*files, (folder / "api" / "flux_schnell.json").read_bytes()], 40):
        use(content, definitions)


def test_whatever_is_broken_in_the_definitions_they_are_read(seeds):
    for _, content in mutations([json.dumps(CLASSES).encode()], amount(30, 80)):
        try:
            data = json.loads(content)
        except ValueError:
            continue
        definitions = Definitions.of(data)
        for seed in seeds:
            use(seed, definitions)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"\xff\xfe{}", "format"),
        (b"", "format"),
        (b"{", "format"),
        (b"[]", "format"),
        (b'{"nodes": []}', "format"),
        (b'{"nodes": 1, "links": []}', "format"),
        (b'{"1": {"class_type": "A", "class_type": "B"}}', "duplicate-key"),
        (b'{"1": {"class_type": "A", "inputs": {"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}}}", "format"),
        (b'{"1": {"class_type": "A", "inputs": {"a": ' + b'{"b":' * 70 + b"1" + b"}" * 70 + b"}}}", "depth"),
        (b'{"1": {"class_type": "A", "inputs": {"a": ' + b"9" * 5000 + b"}}}", "format"),
        (b" " * (16 * 2**20 + 1), "size"),
        (b"a = B()\n" * 2**20, "size"),
        (b"A(x=" + b"(" * 3000 + b")" * 3000 + b")", "format"),
        (b"A(x=" + b"-" * 100_000 + b"1)", "format"),
        (b"A(x=" + b"1+" * 100_000 + b"1)", "format"),
        (b"\0", "format"),
    ],
)
def test_what_cannot_be_read_says_why(content, code):
    with pytest.raises(InvalidError) as raised:
        load(content, "file")
    assert raised.value.issues[0].code == code


def bomb(levels, width):
    """A file whose subgraphs would hold `width` ** `levels` nodes."""
    parts = []
    for level in range(levels):
        kind = f"part-{level + 1}" if level + 1 < levels else "Paint"
        nodes = [{"id": number, "type": kind} for number in range(width)]
        parts.append({"id": f"part-{level}", "name": "part", "nodes": nodes, "links": []})
    nodes = [{"id": 1, "type": "part-0"}]
    return {"nodes": nodes, "links": [], "definitions": {"subgraphs": parts}}


@pytest.mark.slow
def test_subgraphs_that_would_fill_the_memory_are_refused():
    graph = load(json.dumps(bomb(12, 30)).encode())
    assert json.loads(dump(graph)) == bomb(12, 30)
    with pytest.raises(InvalidError, match="once its subgraphs are put in"):
        dump_api(graph)
    assert [issue.code for issue in check(graph, Definitions())] == ["size"]


def test_a_subgraph_within_itself_is_a_cycle():
    document = bomb(2, 1)
    document["definitions"]["subgraphs"][1]["nodes"][0]["type"] = "part-0"
    graph = load(json.dumps(document).encode())
    assert [(issue.code, issue.where) for issue in check(graph, Definitions())] == [("cycle", "part-0")]


def test_reroutes_in_a_ring_lead_to_nothing():
    ring = [
        {"id": number, "type": "Reroute", "inputs": [{"name": "", "link": number}], "outputs": [{"links": []}]}
        for number in (1, 2)
    ]
    save = {"id": 3, "type": "Save", "inputs": [{"name": "image", "link": 3}]}
    links = [[1, 2, 0, 1, 0, "*"], [2, 1, 0, 2, 0, "*"], [3, 1, 0, 3, 0, "*"]]
    graph = load(json.dumps({"nodes": [*ring, save], "links": links}).encode())
    assert json.loads(dump_api(graph)) == {"3": {"class_type": "Save", "inputs": {}, "_meta": {"title": "Save"}}}


def test_a_setter_of_its_own_getter_leads_to_nothing():
    ring = [
        {"id": 1, "type": "SetNode", "inputs": [{"name": "", "link": 1}], "widgets_values": ["x"]},
        {"id": 2, "type": "GetNode", "outputs": [{"links": [1, 3]}], "widgets_values": ["x"]},
    ]
    save = {"id": 3, "type": "Save", "inputs": [{"name": "image", "link": 3}]}
    links = [[1, 2, 0, 1, 0, "*"], [3, 2, 0, 3, 0, "*"]]
    graph = load(json.dumps({"nodes": [*ring, save], "links": links}).encode())
    assert json.loads(dump_api(graph)) == {"3": {"class_type": "Save", "inputs": {}, "_meta": {"title": "Save"}}}


def test_many_nodes_in_one_line_are_read():
    graph = load(("; ".join(f"A_{number} = A(x={number})" for number in range(5000))).encode())
    assert [node.id for node in graph.nodes] == [str(number) for number in range(1, 5001)]


def test_many_links_into_one_node_are_written():
    hub = {"class_type": "Hub", "inputs": {f"in{number}": [str(number), 0] for number in range(3000)}}
    api = {**{str(number): {"class_type": "A"} for number in range(3000)}, "hub": hub}
    document = json.loads(dump(load(json.dumps(api).encode())))
    assert len(document["links"]) == len(document["nodes"][-1]["inputs"]) == 3000
    assert [link[4] for link in document["links"]] == list(range(3000))


def test_what_looks_like_a_choice_takes_no_time():
    node = {
        "id": 1,
        "type": "CLIPTextEncode",
        "mode": 0,
        "inputs": [],
        "outputs": [],
        "widgets_values": ["{" + "|" * 300_000],
    }
    graph = load(json.dumps({"nodes": [node], "links": [], "version": 0.4}).encode(), "x")
    assert "chosen at random" not in str(COMFYUI_API.losses(graph))
