"""Pictures that ComfyUI saved: the workflow in them is read, and written into them; their pixels stay."""

import io
import json
import random
import struct
import sys
import zlib

import pytest
from amounts import amount

from operad.cli.main import main
from operad.flows.formats.remarks import remarks_of
from operad.flows.formats.table import FORMATS, find_format, read
from operad.integrations.comfyui.formats import (
    COMFYUI,
    COMFYUI_API,
    COMFYUI_PICTURE,
    check,
    dump,
    dump_api,
    formats,
    load,
)
from operad.integrations.comfyui.formats.definitions import Definitions
from operad.integrations.comfyui.formats.pictures import MAX_CHUNKS, blank
from operad.integrations.comfyui.operator import ComfyUI
from operad.operators import OperatorConfig
from operad.runtime.values.errors import InvalidError

API = {
    "1": {"class_type": "Paint", "inputs": {"text": "a lake", "seed": 7}, "_meta": {"title": "Paint it"}},
    "2": {"class_type": "Save", "inputs": {"images": ["1", 0]}, "is_changed": [0.5]},
}
PAGE = {
    "nodes": [{"id": 1, "type": "Paint", "pos": [5, 6], "outputs": [{"name": "IMAGE", "type": "IMAGE", "links": [1]}]},
              {"id": 2, "type": "Save", "inputs": [{"name": "images", "type": "IMAGE", "link": 1}]}],
    "links": [[1, 1, 0, 2, 0, "IMAGE"]],
    "groups": [{"title": "all", "bounding": [0, 0, 9, 9]}],
    "version": 0.4,
}  # fmt: skip
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


PIXELS = chunk(b"IDAT", zlib.compress(b"\0\x10\x20\x30"))


END = chunk(b"IEND", b"")


def png(*chunks, end=END):
    return SIGNATURE + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)) + b"".join(chunks) + PIXELS + end


def text(key, value, kind=b"tEXt"):
    said = (value if isinstance(value, str) else json.dumps(value)).encode()
    content = {
        b"tEXt": lambda: said,
        b"comf": lambda: said,
        b"zTXt": lambda: b"\0" + zlib.compress(said),
        b"iTXt": lambda: b"\0\0\0\0" + said,
        b"iTXt packed": lambda: b"\1\0en\0key\0" + zlib.compress(said),
    }[kind]()
    return chunk(kind[:4], key.encode() + b"\0" + content)


def webp(order, texts, prefix=b""):
    """A WebP without pixels, whose EXIF data hold texts."""
    values = [said.encode() + b"\0" for said in texts]
    place = 10 + 12 * len(values)
    entries, data = b"", b""
    for number, value in enumerate(values):
        entries += struct.pack(f"{order}HHII", 0x110 - number, 2, len(value), place + len(data))
        data += value
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(f"{order}I", 8)
    exif = prefix + head + struct.pack(f"{order}H", len(values)) + entries + data
    parts = b"".join(
        kind + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)
        for kind, content in ((b"VP8X", bytes(10)), (b"VP8 ", b"odd"), (b"EXIF", exif))
    )
    return b"RIFF" + struct.pack("<I", len(parts) + 4) + b"WEBP" + parts


@pytest.mark.parametrize("kind", [b"tEXt", b"zTXt", b"iTXt", b"iTXt packed", b"comf"])
def test_the_workflow_of_a_picture_is_used_and_said(kind):
    found, graph = read(png(text("prompt", API, kind), text("workflow", PAGE, kind)), "picture")
    assert found is COMFYUI_PICTURE
    assert json.loads(dump(graph)) == PAGE
    [remark] = remarks_of(graph)
    assert (remark.field, remark.says, remark.lossy) == (
        "workflow",
        "the picture's workflow is used, not its prompt",
        False,
    )


def test_a_picture_with_a_prompt_alone_is_read():
    graph = COMFYUI_PICTURE.load(png(text("parameters", "{"), text("prompt", API)))
    assert json.loads(dump_api(graph)) == API
    assert [remark.field for remark in remarks_of(graph)] == ["prompt"]


def test_a_workflow_that_cannot_be_read_gives_way_to_the_prompt_and_that_is_said():
    graph = COMFYUI_PICTURE.load(png(text("workflow", "{}x"), text("prompt", API)))
    assert json.loads(dump_api(graph)) == API
    assert remarks_of(graph)[0].says.startswith(
        "the picture's prompt is used, not its workflow, which cannot be read: is not JSON"
    )


def test_a_prompt_of_words_is_refused_as_text():
    with pytest.raises(InvalidError) as raised:
        FORMATS["comfyui-picture"].load(blank({"prompt": "a cat, masterpiece\nSteps: 20"}))
    [issue] = raised.value.issues
    assert (issue.code, "prompt" in issue.where, "text" in issue.message) == ("format", True, True)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("prefix", [b"", b"Exif\0\0"])
def test_a_webp_is_read(order, prefix):
    graph = load(webp(order, [f"prompt:{json.dumps(API)}", f"Workflow:{json.dumps(PAGE)}"], prefix))
    assert json.loads(dump(graph)) == PAGE
    assert find_format(webp(order, ["other:{}"])) is None


def test_texts_beyond_latin_1_are_read():
    api = {"1": {"class_type": "Ünï", "inputs": {"text": "湖"}}}
    for kind in (b"tEXt", b"iTXt"):
        graph = load(png(text("prompt", json.dumps(api, ensure_ascii=False), kind)))
        assert (graph.nodes[0].type, graph.nodes[0].params) == ("Ünï", {"text": "湖"})


def other_parts(picture):
    """The chunks of a picture that hold no workflow."""
    at, found = len(SIGNATURE), []
    while at < len(picture):
        size = int.from_bytes(picture[at : at + 4], "big")
        part, at = picture[at : at + 12 + size], at + 12 + size
        found += [part] if not part[8:].startswith((b"workflow\0", b"prompt\0")) else []
    return found


@pytest.mark.parametrize("given", [json.dumps(API), json.dumps(PAGE)])
def test_a_workflow_is_written_into_a_picture_of_which_all_else_stays(given):
    old = png(text("workflow", {"nodes": [], "links": []}), text("parameters", "steps: 3"), text("prompt", "broken"))
    new = COMFYUI_PICTURE.dump_keeping_text(load(given.encode()), old)
    assert other_parts(new) == other_parts(old)
    graph = load(new)
    written = dump(graph) if given == json.dumps(PAGE) else dump_api(graph)
    assert json.loads(written) == json.loads(given)
    assert COMFYUI_PICTURE.dump_keeping_text(load(new), new) == new


def test_a_new_picture_is_a_png_that_other_programs_open():
    image = pytest.importorskip("PIL.Image")
    with image.open(io.BytesIO(COMFYUI_PICTURE.dump(load(json.dumps(PAGE).encode())))) as opened:
        opened.load()
        assert (opened.size, json.loads(opened.text["workflow"]), set(opened.text)) == (
            (1, 1),
            PAGE,
            {"workflow", "prompt"},
        )


def test_a_prompt_that_is_not_complete_is_left_out_of_a_picture_and_that_is_noted():
    page = {"nodes": [{"id": 1, "type": "Paint", "widgets_values": [7]}], "links": []}
    graph = load(json.dumps(page).encode())
    assert b"prompt\0" not in COMFYUI_PICTURE.dump(graph)
    assert [issue.code for issue in COMFYUI_PICTURE.losses(graph)] == ["note"]
    classes = {"Paint": {"input": {"required": {"seed": ["INT", {}]}}, "output": [], "output_node": True}}
    assert b"prompt\0" in formats(Definitions.of(classes))[3].dump(graph)


def broken(position, byte=b"?"):
    whole = png(text("workflow", PAGE))
    return whole[:position] + byte + whole[position + 1 :]


BOMB = b"\0" + zlib.compress(bytes(20 * 2**20))


@pytest.mark.parametrize(
    ("content", "code", "where"),
    [
        (broken(70), "format", "workflow, byte 33"),  # its checksum
        (png(text("workflow", PAGE))[:90], "format", "workflow, byte 33"),  # cut off
        (png(text("workflow", PAGE), text("workflow", PAGE)), "format", "workflow, byte"),
        (png(chunk(b"zTXt", b"workflow\0" + BOMB)), "size", "workflow, byte 33"),
        (png(chunk(b"zTXt", b"workflow\0\0x\x9c")), "format", "workflow, byte 33"),
        (png(chunk(b"zTXt", b"workflow\0\0" + zlib.compress(b"{}" * 99)[:-9])), "format", "workflow, byte 33"),
        (png(chunk(b"zTXt", b"workflow\0\7x")), "format", "workflow, byte 33"),
        (png(chunk(b"iTXt", b"workflow\0")), "format", "workflow"),
        (png(chunk(b"tEXt", b"prompt")), "format", "prompt"),
        (png(text("workflow", '{"nodes": 1, "links": []}')), "format", "workflow"),
        (png(text("prompt", {"1": {"class_type": ""}})), "misshapen-node", "prompt, 1"),
        (png(text("workflow", "[" * 10**5)), "format", "workflow"),
        (webp("<", ["workflow:{"]), "format", "workflow"),
        (webp("<", ["workflow:{}", "workflow:{}"]), "format", "workflow, byte"),
        (webp("<", ["workflow:" + json.dumps(PAGE)])[:-20], "format", "workflow, byte"),
    ],
)
def test_a_broken_picture_is_refused_with_its_place(content, code, where):
    with pytest.raises(InvalidError) as raised:
        read(content, "picture")
    assert raised.value.issues[0].code == code
    assert raised.value.issues[0].where.startswith(where)


@pytest.mark.parametrize("content", [png(), webp("<", []), b"\xff\xd8\xff\xe0 a JPEG", SIGNATURE])
def test_a_picture_without_a_workflow_is_called_one(content):
    assert find_format(content) is None
    with pytest.raises(InvalidError, match="is a picture in which no workflow is stored"):
        read(content, "picture")


@pytest.mark.parametrize("old", [b"no picture", webp("<", []), png()[:60], png(end=b""), broken(70), SIGNATURE])
def test_into_a_file_that_is_no_whole_png_nothing_is_written(old):
    with pytest.raises(InvalidError) as raised:
        COMFYUI_PICTURE.dump_keeping_text(load(json.dumps(API).encode()), old)
    assert raised.value.issues[0].code == "format"


def test_a_picture_of_very_many_parts_ends_in_an_issue():
    many = png(*[chunk(b"tEXt", b"a\0b")] * (MAX_CHUNKS + 1))
    assert find_format(many) is None
    with pytest.raises(InvalidError, match="chunks"):
        COMFYUI_PICTURE.dump_keeping_text(load(json.dumps(API).encode()), many)


def test_whatever_is_broken_in_a_picture_it_is_read_or_refused():
    seeds = [png(text("workflow", PAGE, b"zTXt"), text("prompt", API)), png(text("prompt", API, b"iTXt packed")),
             webp("<", ["workflow:" + json.dumps(PAGE)]), webp(">", ["prompt:" + json.dumps(API)], b"Exif\0\0")]  # fmt: skip
    for seed in range(amount(300, 1000)):
        chance = random.Random(seed)  # noqa: S311
        content = bytearray(chance.choice(seeds))
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(content))
            match chance.randrange(3):
                case 0:
                    content[at] = chance.randrange(256)
                case 1:
                    del content[at : at + chance.randrange(1, 30)]
                case _:
                    content[at:at] = chance.randbytes(chance.randrange(1, 9))
        try:
            _, graph = read(bytes(content), "picture")
        except InvalidError:
            continue
        check(graph, Definitions())
        COMFYUI_PICTURE.losses(graph)
        COMFYUI_PICTURE.dump(graph)


def test_every_real_workflow_is_equal_after_it_was_in_a_picture(shared_data):
    files = sorted((shared_data / "comfyui").glob("*/*.json"))
    assert len(files) > 60
    for file in files:
        graph = load(file.read_bytes(), file.stem)
        picture = COMFYUI_PICTURE.dump(graph)
        written = COMFYUI if "workflows" in file.parts else COMFYUI_API
        back = load(COMFYUI_PICTURE.dump_keeping_text(graph, png(text("workflow", "old"))), file.stem)
        for each in (load(picture, file.stem), back):
            assert json.loads(written.dump(each)) == json.loads(file.read_bytes()), file.name


@pytest.fixture
def operad(tmp_path, monkeypatch, capfd):
    """Runs the command in an empty folder: status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def operad(*arguments):
        monkeypatch.setattr(sys, "argv", ["operad", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code or 0, "".join(capfd.readouterr())

    return operad


def test_commands_read_and_write_pictures(operad, tmp_path):
    (tmp_path / "cat.png").write_bytes(png(text("prompt", API)))
    (tmp_path / "fig.png").write_bytes(png())
    status, said = operad("check", "cat.png")
    assert (status, "the picture's prompt is used [note]" in said) == (0, True)
    status, said = operad("convert", "cat.png", "-o", "cat.comfyui.py")
    assert (status, "the picture's prompt is used" in said) == (0, True)
    assert operad("convert", "cat.comfyui.py", "--into", "fig.png")[0] == 0
    fig = (tmp_path / "fig.png").read_bytes()
    assert (other_parts(fig), json.loads(dump_api(load(fig)))) == (other_parts(png()), API)
    assert operad("convert", "cat.png", "--into", "fig.png", "-o", "copy.png")[0] == 0
    assert (tmp_path / "fig.png").read_bytes() == (tmp_path / "copy.png").read_bytes() == fig
    assert operad("convert", "cat.png", "-o", "same.comfyui.png")[0] == 0
    assert (tmp_path / "same.comfyui.png").read_bytes() == png(text("prompt", API))


@pytest.mark.parametrize(
    "arguments",
    [
        ("convert", "cat.png", "--into", "missing.png"),
        ("run", "cat.png"),
        ("edit", "cat.png", "--op", "remove_node 1"),
    ],
)
def test_a_command_that_cannot_take_a_picture_says_so(operad, tmp_path, arguments):
    (tmp_path / "cat.png").write_bytes(png(text("prompt", API)))
    (tmp_path / "cat.comfyui.py").write_text("A()")
    status, said = operad(*arguments)
    assert (status, "internal" in said, len(said.splitlines())) == (2, False, 1)
    assert (tmp_path / "cat.comfyui.py").read_text() == "A()"


def test_the_operator_takes_a_picture(tmp_path):
    (tmp_path / "cat.png").write_bytes(png(text("prompt", API)))
    operator = ComfyUI(
        OperatorConfig(id="draw", instruction="Draw."), server="http://127.0.0.1:1", workflow=tmp_path / "cat.png"
    )
    assert operator.check({}) == []


def test_pictures_are_a_format_of_their_own():
    assert FORMATS["comfyui-picture"].suffix == ".comfyui.png"
