import copy
import json
from base64 import b64encode
from typing import Any

import pytest
from pydantic import BaseModel

from operad.configs.models import make_model
from operad.configs.schema import ModelSpec
from operad.runtime.models.embedded import EmbeddedModel
from operad.runtime.models.messages import Blob
from operad.runtime.reasoning.prompt import ATTACHED_RULE, DATA_RULE, render
from operad.runtime.reasoning.reasoner import DualModelReasoner, MonoModelReasoner
from operad.runtime.reasoning.shown_files import MAX_ATTACHED
from operad.runtime.reasoning.task import Task
from operad.runtime.testing import CallTools, Say, ScriptedModel
from operad.runtime.tools.tool import Tool
from operad.runtime.values import file
from operad.runtime.values.blob import Blob as ResultBlob
from operad.runtime.values.file import IMAGE_TYPES, MAX_IMAGE_BYTES, PDF, FileDescriptor
from operad.runtime.values.message import Job
from operad.runtime.values.schema import AnswerSchema

IMAGES = {
    "a.png": (b"\x89PNG\r\n\x1a\n-", "image/png"),
    "b.jpg": (b"\xff\xd8\xff-", "image/jpeg"),
    "c.gif": (b"GIF89a-", "image/gif"),
    "d.webp": (b"RIFF\0\0\0\0WEBP-", "image/webp"),
}


@pytest.fixture
def about(tmp_path):
    """A task about files: ``about(a_png=…)`` takes contents by name, with an underscore for the dot."""

    def about(tools=(), **contents):
        files = []
        for name, content in contents.items():
            path = tmp_path / name.replace("_", ".")
            path.write_bytes(content)
            files.append(FileDescriptor.of(path))
        return Task(job=Job(goal="What is this?"), instruction="Look.", files=tuple(files), tools=tools)

    return about


def url_of(name):
    data, mime_type = IMAGES[name]
    return f"data:{mime_type};base64,{b64encode(data).decode()}"


def urls_in(message):
    """The images of a message in a request."""
    return [part["image_url"]["url"] for part in message["content"] if part["type"] == "image_url"]


def blob_of(name, named=None):
    data, mime_type = IMAGES[name]
    return Blob(data=data, media_type=mime_type, name=named or name)


def test_a_model_that_sees_is_shown_images_after_the_text(about):
    task = about(notes_txt=b"words", **{name.replace(".", "_"): data for name, (data, _) in IMAGES.items()})
    system, user = render(task, takes=IMAGE_TYPES)
    _, *images = user.parts
    assert "### a.png (image/png, 9 bytes)\n(attached below, as number 1)" in user.text
    assert "### d.webp (image/webp, 13 bytes)\n(attached below, as number 4)" in user.text
    assert "```\nwords\n```" in user.text
    assert images == [blob_of(name) for name in IMAGES]
    assert system.text == f"Look.\n\n{DATA_RULE}\n\n{ATTACHED_RULE}"


def test_a_model_that_does_not_see_is_told_of_images(about):
    system, user = render(about(a_png=IMAGES["a.png"][0]))
    assert "(an image; this model cannot be shown images)" in user.text
    assert (len(user.parts), system.text) == (1, "Look.")


def test_a_task_without_images_reads_the_same_to_a_model_that_sees(about):
    task = about(notes_txt=b"words")
    assert render(task, takes=IMAGE_TYPES) == render(task)


def test_an_image_is_what_its_bytes_say(about):
    [_, user] = render(about(a_png=IMAGES["b.jpg"][0]), takes=IMAGE_TYPES)
    assert user.parts[1:] == (blob_of("b.jpg", named="a.png"),)


def test_what_cannot_be_shown_says_why(about, monkeypatch):
    monkeypatch.setattr(file, "MAX_IMAGE_BYTES", 20)
    task = about(a_png=b"no image", b_png=IMAGES["a.png"][0] + bytes(20), c_png=IMAGES["a.png"][0], d_svg=b"<svg/>")
    gone = about(e_png=b"x")
    gone.files[0].path.unlink()
    [_, user] = render(task.model_copy(update={"files": task.files + gone.files}), takes=IMAGE_TYPES)
    text = user.text
    assert "is not an image of a supported type; convert it to PNG or JPEG" in text
    assert "larger than the maximum of 20 bytes" in text
    assert "### c.png (image/png, 9 bytes)\n(attached below, as number 1)" in text
    assert "### d.svg (image/svg+xml, 6 bytes)\n(not text, not shown)" in text
    assert "cannot be read: No such file" in text
    assert user.parts[1:] == (blob_of("a.png", named="c.png"),)


def test_only_so_many_images_are_shown(about):
    [_, user] = render(about(**{f"a{n}_png": IMAGES["a.png"][0] for n in range(MAX_ATTACHED + 1)}), takes=IMAGE_TYPES)
    assert user.parts[1:] == tuple(blob_of("a.png", named=f"a{n}.png") for n in range(MAX_ATTACHED))
    assert f"(an image, not shown: {MAX_ATTACHED} others are)" in user.text


def test_a_document_is_shown_to_a_model_that_takes_documents_alone(about):
    task = about(a_pdf=b"%PDF-1.7 -", b_pdf=b"<html>", a_png=IMAGES["a.png"][0])
    [_, user] = render(task, takes=(PDF,))
    assert user.parts[1:] == (Blob(data=b"%PDF-1.7 -", media_type=PDF, name="a.pdf"),)
    assert "### a.pdf (application/pdf, 10 bytes)\n(attached below, as number 1)" in user.text
    assert "b.pdf: is not a PDF document)" in user.text
    assert "(an image; this model cannot be shown images)" in user.text
    [_, user] = render(task, takes=IMAGE_TYPES)
    assert [part.media_type for part in user.parts[1:] if isinstance(part, Blob)] == ["image/png"]
    assert user.text.count("(a document; this model cannot be shown documents)") == 2


async def test_of_a_tools_result_a_model_is_shown_what_it_takes_and_told_what_it_is_not():
    def scan() -> list[str | ResultBlob]:
        """Scan."""
        contents = {"image/png": b"\x89PNG\r\n\x1a\n", PDF: b"%PDF-1.7", "audio/wav": b"-"}
        return ["Three files:", *(ResultBlob(data=data, media_type=kind) for kind, data in contents.items())]

    task = Task(job=Job(goal="Look."), instruction="Look.", tools=(Tool.of(scan),))
    told = {}
    for name in ("gpt-5.6", "gemma-3-27b", "llama-3.3-70b"):
        async with ScriptedModel([CallTools({"scan": {}}), Say("seen")]) as scripted:
            await MonoModelReasoner(scripted.model.model_copy(update={"name": name})).infer(task)
        messages = scripted.requests[1]["messages"]
        said = json.dumps([message["content"] for message in messages if message["role"] != "assistant"])
        told[name] = (
            "image_url" in said,
            '"file"' in said,
            "content of [audio/wav, 1 bytes].)" in said,
            "content of [application/pdf, " in said,
        )
    assert told == {
        "gpt-5.6": (True, True, True, False),
        "gemma-3-27b": (True, False, False, True),
        "llama-3.3-70b": (False, False, False, False),
    }
    assert "content of [image/png, 8 bytes], [application/pdf, 8 bytes], [audio/wav, 1 bytes].)" in said


class Chart(BaseModel):
    title: str
    image: ResultBlob


PNG = ResultBlob(data=IMAGES["a.png"][0], media_type="image/png", name="a.png")


@pytest.mark.parametrize(
    ("result", "text", "count"),
    [
        (Chart(title="x", image=PNG), '{"title": "x", "image": "[a.png, image/png, 9 bytes]"}', 1),
        ({"chart": PNG, "n": 1}, '{"chart": "[a.png, image/png, 9 bytes]", "n": 1}', 1),
        ([PNG, 5, [PNG]], '["[a.png, image/png, 9 bytes]", 5, ["[a.png, image/png, 9 bytes]"]]', 2),
        ([PNG, "b"], "[a.png, image/png, 9 bytes]\nb", 1),
        (ResultBlob(data=IMAGES["b.jpg"][0], media_type="image/png"), "[image/png, 4 bytes]", 1),
        (ResultBlob(data=b"<svg>", media_type="image/png"), "content of [image/png, 5 bytes].)", 0),
        (PNG.model_copy(update={"data": PNG.data + b"-" * MAX_IMAGE_BYTES}), "content of [a.png, image/png, 10,", 0),
    ],
)
async def test_images_anywhere_in_a_tools_result_are_shown_if_they_are_images_and_not_too_large(result, text, count):
    def draw() -> Any:
        """Draw."""
        return result

    task = Task(job=Job(goal="Look."), instruction="Look.", tools=(Tool.of(draw),))
    async with ScriptedModel([CallTools({"draw": {}}), Say("seen")]) as scripted:
        await MonoModelReasoner(scripted.model.model_copy(update={"vision": True})).infer(task)
    *_, told, shown = (
        scripted.requests[1]["messages"] if count else [*scripted.requests[1]["messages"], {"content": []}]
    )
    assert text in told["content"]
    assert "iVBOR" not in told["content"]
    urls = [part["image_url"]["url"] for part in shown["content"] if part["type"] == "image_url"]
    assert len(urls) == count
    assert all(url.startswith("data:image/jpeg" if "b.jpg" in str(result) else "data:image/") for url in urls)


def test_a_value_with_a_blob_is_stored_with_its_bytes():
    chart = Chart(title="x", image=PNG)
    assert Chart.model_validate_json(chart.model_dump_json()) == chart


def test_each_file_that_a_model_is_not_shown_is_a_warning_without_its_folder_in_the_prompt(about, caplog, tmp_path):
    many = {f"a{n}_png": IMAGES["a.png"][0] for n in range(MAX_ATTACHED)}
    task = about(bad_png=b"<html>", sound_mp3=b"-", **many, z_png=IMAGES["a.png"][0])
    [_, user] = render(task, takes=IMAGE_TYPES)
    warned = sorted(record.getMessage().partition(":")[0] for record in caplog.records)
    assert warned == ["bad.png", "sound.mp3", "z.png"]
    assert str(tmp_path) not in user.text


async def test_the_endpoint_is_sent_the_images_and_what_is_said_later(about):
    def look_up(word: str) -> str:
        """Look up a word."""
        return f"{word} is a fruit"

    task = about(tools=(Tool.of(look_up),), a_png=IMAGES["a.png"][0])
    task = task.model_copy(
        update={"output_schema": AnswerSchema.unchecked({"type": "object", "properties": {"kind": {"type": "string"}}})}
    )
    script = [CallTools([("look_up", {"word": "fig"})]), Say("a fig"), Say('{"kind": "fruit"}')]
    async with ScriptedModel(script) as scripted:
        await MonoModelReasoner(scripted.model.model_copy(update={"vision": True})).infer(task)
    for request in scripted.requests:
        assert urls_in(request["messages"][1]) == [url_of("a.png")]


async def test_a_model_without_native_tools_sees_too_and_its_asides_leave_no_trace(about):
    def look_up(word: str) -> str:
        """Look up a word."""
        return f"{word} is a fruit"

    task = about(tools=(Tool.of(look_up),), a_png=IMAGES["a.png"][0])
    script = [Say('{"tool": "answer"}'), Say("a fig")]
    async with ScriptedModel(script) as scripted:
        model = scripted.model.model_copy(update={"vision": True, "tools": "constrained"})
        assert await MonoModelReasoner(model).infer(task) == "a fig"
    aside, last = (request["messages"][-1] for request in scripted.requests)
    assert urls_in(aside) == urls_in(last) == [url_of("a.png")]
    assert "Choose the tool" in aside["content"][-1]["text"]
    assert aside["content"][:-1] == last["content"]


async def test_of_two_models_each_is_shown_what_it_can_see(about):
    steps = [Say('{"instruction": "look", "finished": true}'), Say("a fig")]
    async with ScriptedModel(steps) as scripted:
        thinker, actor = scripted.model, scripted.model.model_copy(update={"vision": True})
        await DualModelReasoner(actor, thinker).infer(about(a_png=IMAGES["a.png"][0]))
    thought, acted = (request["messages"][1]["content"] for request in scripted.requests)
    assert "cannot be shown images" in thought
    assert [part["type"] for part in acted] == ["text", "image_url", "text"]


def test_whether_a_model_sees_is_said_in_the_file(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    assert make_model(ModelSpec(name="m", vision=True)).profile.vision
    assert not make_model(ModelSpec(name="m")).profile.vision
    assert not EmbeddedModel().profile.vision
    model = make_model(ModelSpec(name="m"))
    assert copy.copy(model).fingerprint() == model.fingerprint()
    assert model.model_copy(update={"vision": True}).fingerprint() != model.fingerprint()
