"""ComfyUI workflows from words: what each stage asks, what rules mend, and what becomes of bad answers."""

import json
import sys
from dataclasses import replace

import pytest
from amounts import amount, sample

from operad.cli import main as cli
from operad.flows.generation.prompts import CHARACTERS_A_TOKEN
from operad.flows.node_graph import NodeGraph
from operad.integrations.comfyui.formats import (
    Definitions,
    check,
    dump,
    dump_api,
    dump_code,
    executable,
    load,
    read_definitions,
)
from operad.integrations.comfyui.generation import prompts
from operad.integrations.comfyui.generation.classes import MOST_OFFERED, offered
from operad.integrations.comfyui.generation.designer import MendCode
from operad.integrations.comfyui.generation.drafts import MAX_LINES, Draft, read_answer, read_lines
from operad.integrations.comfyui.generation.findings import findings
from operad.integrations.comfyui.generation.generate import ComfyDesigner, continued
from operad.integrations.comfyui.generation.rules import mend
from operad.operators.config import OperatorConfig
from operad.runtime import Job, WorkflowStatus
from operad.runtime.testing import Say, ScriptedModel, ScriptedReasoner
from operad.runtime.values.errors import AnswerError, InputError

OBJECT_INFO = {
    "Loader": {
        "input": {"required": {"name": [["xl.safetensors", "small.safetensors"]]}},
        "output": ["MODEL", "CLIP", "VAE"],
        "description": "Loads a model.",
    },
    "TextEncode": {
        "input": {"required": {"text": ["STRING", {"multiline": True}], "clip": ["CLIP"]}},
        "output": ["CONDITIONING"],
        "description": "Turns a prompt into what guides a sampler.",
    },
    "Empty": {
        "input": {"required": {"width": ["INT", {"default": 512, "min": 16, "max": 4096}]}},
        "output": ["LATENT"],
    },
    "Sampler": {
        "input": {
            "required": {
                "seed": ["INT", {"default": 0}],
                "steps": ["INT", {"default": 20, "min": 1}],
                "scheduler": [["normal", "karras"]],
                "model": ["MODEL"],
                "positive": ["CONDITIONING"],
                "negative": ["CONDITIONING"],
                "latent": ["LATENT"],
            }
        },
        "output": ["LATENT"],
        "description": "Draws.",
    },
    "Decode": {"input": {"required": {"samples": ["LATENT"], "vae": ["VAE"]}}, "output": ["IMAGE"]},
    "Save": {
        "input": {"required": {"prefix": ["STRING", {"default": "picture"}], "images": ["IMAGE"]}},
        "output": [],
        "output_node": True,
    },
    "Upscale": {
        "input": {"required": {"image": ["IMAGE"], "factor": ["FLOAT", {"default": 2.0}]}},
        "output": ["IMAGE"],
        "description": "Makes a picture larger.",
    },
}
CLASSES = Definitions.of(OBJECT_INFO)
INSTRUCTION = "A picture of a lighthouse at dusk."
CODE = """\
MODEL_1, CLIP_1, VAE_1 = Loader(name='xl.safetensors')  # 1
LATENT_1 = Empty(width=512)  # 4
CONDITIONING_1 = TextEncode(text='a lighthouse', clip=CLIP_1)  # 2
CONDITIONING_2 = TextEncode(text='blurred', clip=CLIP_1)  # 3
LATENT_2 = Sampler(seed=1, steps=20, scheduler='normal', model=MODEL_1, positive=CONDITIONING_1, \
negative=CONDITIONING_2, latent=LATENT_1)  # 5
IMAGE_1 = Decode(samples=LATENT_2, vae=VAE_1)  # 6
Save(prefix='picture', images=IMAGE_1)  # 7
"""
CHOSEN = {"reasoning": "", "classes": ["Loader", "TextEncode", "Empty", "Sampler", "Decode", "Save"]}
NOTHING = NodeGraph()


def lines(*changes):
    return {"reasoning": "so", "lines": [{"line": line, "code": code} for line, code in changes]}


class Model:
    """Answers each stage from a list of its own; the last answer again and again."""

    def __init__(self, draft=(CODE,), mend=(), select=(CHOSEN,), change=()):
        self.answers = {"select": list(select), "draft": list(draft), "mend": list(mend), "change": list(change)}
        self.asked = []

    def __call__(self, request):
        form = (request.get("response_format") or {}).get("json_schema", {}).get("schema", {}).get("properties", {})
        told = "\n".join(str(message["content"]) for message in request["messages"])
        changes = "mend" if "### Findings" in told else "change"
        stage = "select" if "classes" in form else changes if "lines" in form else "draft"
        self.asked.append((stage, told))
        left = self.answers[stage]
        answer = left.pop(0) if len(left) > 1 else left[0]
        return Say(answer if isinstance(answer, str) else json.dumps(answer))

    @property
    def stages(self):
        return [stage for stage, _ in self.asked]

    def told(self, stage):
        return [text for each, text in self.asked if each == stage]


def design(model, instruction=INSTRUCTION, base=NOTHING, definitions=CLASSES):
    with ScriptedModel(model) as scripted:
        return ComfyDesigner(definitions, scripted.model).design(instruction, base)


def test_classes_are_chosen_and_code_is_drafted():
    model = Model(draft=[f"```python\n{CODE}```"])
    made = design(model)
    assert made.accepted
    assert model.stages == ["select", "draft"]
    assert dump_code(made.graph, CLASSES) == CODE
    assert json.loads(dump_api(made.graph))["6"]["inputs"] == {"samples": ["5", 0], "vae": ["1", 2]}
    assert "Upscale(IMAGE) → IMAGE: Makes a picture larger." in model.told("select")[0]
    assert "scheduler: 'normal' | 'karras'" in model.told("draft")[0]
    assert "Upscale" not in model.told("draft")[0]
    assert made.message.score == 10


@pytest.mark.parametrize(
    ("right", "wrong", "rule"),
    [
        ("Sampler(", "sampler(", "class"),
        ("TextEncode(text='a", "TextEncoder(text='a", "class"),
        ("width=512", "Width=512", "input"),
        ("positive=", "postive=", "input"),
        ("samples=", "latents=", "input"),
        ("'normal'", "'Normal'", "option"),
        ("seed=1, steps=20", "seed=1", "default"),
        (", vae=VAE_1", "", "link"),
        ("vae=VAE_1", "vae=MODEL_1", "output"),
        ("vae=VAE_1", "vae=vae1", "variable"),
        ("vae=VAE_1", "vae=undefined", "link"),
    ],
)
def test_rules_mend_slips_without_asking(right, wrong, rule):
    assert right in CODE
    model = Model(draft=[CODE.replace(right, wrong)])
    made = design(model)
    assert made.accepted, made.findings
    assert model.stages == ["select", "draft"]
    assert dump_code(made.graph, CLASSES) == CODE
    assert any(each.startswith(f"[{rule}]") for each in made.message.outputs["repairs"])


def test_lines_in_the_wrong_order_are_put_in_order():
    first, *rest = CODE.splitlines(keepends=True)
    made = design(Model(draft=["".join([*rest, first])]))
    assert made.accepted
    assert dump_code(made.graph, CLASSES).splitlines()[-1].startswith("Save")


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("'seedream-4-0'", "'seedream-4-5'"), ("'a.safetensors'", "'ab.safetensors'")],
    ids=["another version", "another file"],
)
def test_another_version_or_file_is_no_slip(right, wrong):
    classes = Definitions.of({"Draw": {"input": {"required": {"model": [[right[1:-1]]]}}, "output_node": True}})
    graph, repairs = mend(read_answer(f"Draw(model={wrong})", classes, NOTHING).graph, classes)
    assert graph.nodes[0].params == {"model": wrong[1:-1]}
    assert not repairs


BROKEN = CODE.replace("text='a lighthouse', ", "")
"""A fault that no rule can mend: nobody knows what was to be said."""
MENDED = (3, "CONDITIONING_1 = TextEncode(text='a lighthouse', clip=CLIP_1)  # 2")


def test_what_rules_cannot_mend_is_asked_for_line_by_line():
    model = Model(draft=[BROKEN], mend=[lines(MENDED)])
    made = design(model)
    assert made.accepted
    assert model.stages == ["select", "draft", "mend"]
    assert dump_code(made.graph, CLASSES) == CODE
    told = model.told("mend")[0]
    assert "[missing-param] line 3 (TextEncode): 'text' (STRING) is required by TextEncode. Do: give it a value" in told
    assert "### The lines concerned\n```\n3: CONDITIONING_1 = TextEncode(clip=CLIP_1)  # 2\n```" in told


def test_an_undefined_variable_of_which_several_can_be_meant_is_asked_for():
    wrong = CODE.replace("positive=CONDITIONING_1", "positive=prompt")
    model = Model(draft=[wrong], mend=[lines((5, CODE.splitlines()[4]))])
    made = design(model)
    assert made.accepted
    told = model.told("mend")[0]
    assert "positive: 'prompt' is not assigned anywhere. Do: positive=one of CONDITIONING_1, CONDITIONING_2" in told


def test_a_variable_that_nobody_assigns_is_not_mistaken_for_one_that_the_code_will_have():
    draft = read_answer("X = Loader(name='xl.safetensors')\nTextEncode(text='', clip=CLIP_9)", CLASSES, NOTHING)
    again = read_answer(draft.code, CLASSES, NOTHING)
    assert "clip=CLIP_9" in draft.code
    assert again.code == draft.code
    two = read_answer(
        "A = Loader(name='x')\nD = Decode(samples=L, vae=VAE_1)\nE = Empty(width=VAE_1)", CLASSES, NOTHING
    )
    assert "MODEL_1, CLIP_1, VAE_2 = Loader" in two.code
    assert "vae=VAE_1" in two.code
    assert read_answer(two.code, CLASSES, NOTHING).code == two.code


def test_a_line_that_cannot_be_read_and_those_that_take_from_it_have_one_variable():
    wrong = CODE.replace("width=512", "width=2 * 256")
    model = Model(draft=[wrong], mend=[lines((7, "LATENT_1 = Empty(width=512)"))])
    made = design(model)
    assert made.accepted, made.findings
    told = model.told("mend")[0]
    assert "7: LATENT_1 = Empty(width=2 * 256)" in told
    assert "latent: 'LATENT_1' is not assigned anywhere" in told
    assert made.graph.by_id["5"].params == {"seed": 1, "steps": 20, "scheduler": "normal"}
    assert len(made.graph.nodes) == 7


@pytest.mark.parametrize(
    "value", ["0x" + "f" * 5_000, "1e400", "10**10**10", "'a' * 10**9", "{'a': -0x" + "f" * 9_999 + "}"]
)
def test_values_that_cannot_be_written_are_not_read(value):
    draft = read_answer(CODE.replace("width=512", f"width={value}"), CLASSES, NOTHING)
    assert len(draft.unread) == 1
    assert dump_api(draft.graph)


def test_a_part_that_leads_nowhere_is_found():
    model = Model(draft=[CODE + "LATENT_3 = Empty(width=64)\n"], mend=[lines((3, ""))])
    made = design(model)
    assert made.accepted, made.findings
    assert "[unconnected] line 3 (Empty): nothing that is saved or shown comes of it (8)." in model.told("mend")[0]
    assert dump_code(made.graph, CLASSES) == CODE


def test_no_output_is_found_with_a_way_out():
    found = findings(read_answer("".join(CODE.splitlines(keepends=True)[:-1]), CLASSES, NOTHING))
    assert found == [
        "[no-output] no node is an output, such as SaveImage, and so nothing would run. "
        "Do: add a last line with one of Save"
    ]


@pytest.mark.parametrize(
    "said", ["I am sorry, but I cannot help with that.", "", "[]", "null", "```python\n```", "x = 5"], ids=repr
)
def test_an_answer_without_code_ends_with_the_reason(said):
    model = Model(draft=[said])
    made = design(model)
    assert not made.accepted
    assert made.graph.nodes == ()
    assert "there is no workflow" in made.findings[0]


@pytest.mark.parametrize(
    "said", ["no", '{"reasoning": "", "classes": []}', '{"reasoning": "", "classes": ["Nothing"]}']
)
def test_no_chosen_class_ends_with_the_reason(said):
    made = design(Model(select=[said]))
    assert not made.accepted
    assert "there is no workflow" in made.findings[0]


def test_a_refusal_to_choose_is_asked_about_once_and_shown():
    model = Model(select=["I will not draw this."])
    made = design(model)
    assert (made.made, [stage for stage, _ in model.asked]) == (False, ["select", "select"])
    assert "I will not draw this." in made.findings[0]


def test_a_refusal_to_write_code_is_shown():
    made = design(Model(draft=["I will not draw this."]))
    assert not made.made
    assert "I will not draw this." in made.findings[0]


def test_notes_of_the_choice_are_shown_and_what_it_leaves_out_is_not_accepted():
    chosen = {**CHOSEN, "notes": ["Dusk is violet."], "left_out": {"a sound of waves": "no class makes sounds"}}
    made = design(Model(select=[chosen]))
    assert (made.made, made.accepted, made.findings) == (True, False, [])
    assert made.notes == ["Dusk is violet."]
    assert made.left_out == ["a sound of waves: no class makes sounds"]
    assert design(Model(select=[{**chosen, "left_out": {}}])).accepted


def test_prose_around_code_is_left_out():
    model = Model(draft=[f"Here is the workflow (with all lines):\n\n{CODE}\nIt draws a lighthouse. Enjoy!"])
    made = design(model)
    assert made.accepted, made.findings
    assert dump_code(made.graph, CLASSES) == CODE


def test_code_that_is_cut_off_keeps_its_whole_lines_and_the_rest_is_asked_for():
    last = "Save(prefix='picture', images=IMAGE_1)"
    model = Model(draft=["```python\n" + CODE[: CODE.index("images=")]], mend=[lines((7, last))])
    made = design(model)
    assert made.accepted, made.findings
    assert "[unreadable] line 7: is not valid Python" in model.told("mend")[0]
    assert dump_code(made.graph, CLASSES) == CODE


def test_lines_that_make_it_worse_are_taken_back():
    model = Model(draft=[BROKEN], mend=[lines((1, ""), (7, ""))])
    made = design(model)
    assert made.message.status is WorkflowStatus.JOB_TOO_COMPLICATED_ERROR
    assert len(made.graph.nodes) == 7
    assert "do not improve the workflow" in model.told("mend")[1]


def test_a_model_that_repeats_itself_ends_the_rounds():
    model = Model(draft=[BROKEN], mend=[lines((3, BROKEN.splitlines()[2]))])
    made = design(model)
    assert made.message.status is WorkflowStatus.JOB_TOO_COMPLICATED_ERROR
    assert model.stages.count("mend") == 2
    assert made.findings


def test_a_line_that_there_is_not_is_told():
    model = Model(draft=[BROKEN], mend=[lines((99, "x")), lines(MENDED)])
    assert design(model).accepted
    assert "there is no line 99; lines are 1 to 7, and 8 adds some" in model.told("mend")[1]


def test_the_code_of_another_line_is_not_put_in_the_place_of_one():
    off_by_one = lines((4, CODE.splitlines()[2].replace("lighthouse", "ship")))
    right = lines((3, CODE.splitlines()[2].replace("lighthouse", "ship")))
    model = Model(change=[off_by_one, right])
    made = design(model, "A ship.", load(CODE.encode()))
    assert made.accepted
    assert "line 4: the id after # is that of line 3" in model.told("change")[1]
    assert [change.node for change in made.changes.changed] == ["2"]


def test_a_refusal_to_change_code_is_shown():
    made = design(Model(change=["I cannot change that."]), "A ship.", load(CODE.encode()))
    assert (made.made, made.accepted) == (False, False)
    assert "I cannot change that." in made.findings[0]


# Hostile answers


@pytest.mark.parametrize(
    "code",
    [
        "__import__('os').system('touch {path}')",
        "X = eval(\"open('{path}', 'w')\")",
        "X = Loader(name=open('{path}', 'w'))",
        "X = Loader(name=[open('{path}', 'w') for _ in 'a'])",
        "open('{path}', 'w')",
        "import os",
        "class Loader: open('{path}', 'w')",
        "X = (lambda: open('{path}', 'w'))()",
        'X = Loader(name=f\'{{open("{path}", "w")}}\')',
    ],
)
def test_code_is_never_run(tmp_path, code):
    path = tmp_path / "run"
    made = design(Model(draft=[CODE + code.format(path=path)], mend=[lines((1, code.format(path=path)))]))
    assert not path.exists()
    assert len(made.graph.nodes) >= 7


@pytest.mark.parametrize(
    "said",
    sample(
        [
            pytest.param("A" * 300_000, id="long"),
            pytest.param("Save()\n" * 10_000, id="lines"),
            pytest.param("X = Unknown()\n" * 10_000, id="classes"),
            pytest.param("x\n" * 90_000, id="junk"),
            pytest.param("(" * 100_000, id="deep"),
            pytest.param("`" * 100_000, id="ticks"),
            pytest.param("X = Loader(name=" + "[" * 90_000, id="lists"),
            pytest.param("a," * 90_000, id="names"),
        ],
        2,
    ),
)
def test_too_much_is_refused(said):
    with pytest.raises(AnswerError):
        read_answer(said, CLASSES, NOTHING)


def test_as_many_wrong_lines_as_are_read_are_mended_and_judged():
    code = "".join(f"V{i} = Sampleer{i}(latnet=V{i - 1}, sede=1)\n" for i in range(MAX_LINES))
    draft = read_answer(code, CLASSES, NOTHING)
    graph, _ = mend(draft.graph, CLASSES)
    assert findings(Draft(graph, (), CLASSES))


def test_what_a_server_says_of_its_classes_is_cut_and_fenced():
    classes = Definitions.of(
        {
            **{
                f"Draw{i}": {
                    "input": {"required": {f"i{j}": [["x" * 500] * 500] for j in range(50)}},
                    "description": "draw " * 500,
                    "output_node": True,
                }
                for i in range(300)
            }
        }
    )
    names = offered("draw", classes)
    model = Model(select=[{"reasoning": "", "classes": names}], draft=["Draw1()"], mend=[lines((1, "Draw2()"))])
    made = design(model, "draw", definitions=classes)
    assert len(made.graph.nodes) == 1
    budgets = {"select": prompts.SELECT_TOKENS, "draft": prompts.DRAFT_TOKENS, "mend": prompts.FIX_TOKENS}
    for stage, text in model.asked:
        assert len(text) < CHARACTERS_A_TOKEN * budgets[stage] + 1_000, stage  # titles, goal and lesson besides
    assert "```\nDraw0: Draw0" not in model.told("select")[0]
    assert f"```\n{names[0]}: draw draw" in model.told("draft")[0]


# Classes


def test_the_classes_that_others_need_are_offered(shared_data):
    known = read_definitions((shared_data / "comfyui" / "object_info.json").read_text())
    names = offered("A short video of a cat from an image, with Wan", known)
    assert len(names) <= MOST_OFFERED
    assert {"WanImageToVideo", "KSampler", "CheckpointLoaderSimple", "VAEDecode", "SaveVideo", "CreateVideo"} <= {
        *names
    }
    gives = {kind for name in names for kind in known.classes[name].outputs}
    assert {"MODEL", "CLIP", "VAE", "CLIP_VISION"} <= gives
    assert set(offered("一只猫", known)) >= {"KSampler", "SaveImage"}


# Changes of what is there

UI = dump(load(CODE.encode()), CLASSES)


def page():
    """A workflow as the page saved it, with places, a colour and a note."""
    document = json.loads(UI)
    for node in document["nodes"]:
        node["pos"] = [node["id"] * 1000, 7]
        node["color"] = "#123456"
    document["nodes"].append({"id": 50, "type": "Note", "pos": [1, 2], "widgets_values": ["Mind the light."]})
    document["last_node_id"] = 50
    return load(json.dumps(document).encode(), "page")


def test_a_change_keeps_the_ids_places_and_looks_of_what_stays():
    base = page()
    changes = lines(
        (3, CODE.splitlines()[2].replace("a lighthouse", "a harbour")),
        (7, "IMAGE_2 = Upscale(image=IMAGE_1, factor=2.0)"),
        (7, "Save(prefix='picture', images=IMAGE_2)  # 7"),
    )
    noted = {**changes, "notes": ["Twice as large is a factor of 2."]}
    model = Model(change=[noted], select=[{"reasoning": "", "classes": ["Upscale"], "notes": ["A harbour by day."]}])
    made = design(model, "A harbour instead, and twice as large.", base)
    assert made.accepted, made.findings
    assert made.notes == ["A harbour by day.", "Twice as large is a factor of 2."]
    assert "Mind the light" not in model.told("change")[0]
    assert "2: " + CODE.splitlines()[1] + " Empty\n" in model.told("change")[0]
    assert made.graph.instructions == ("A harbour instead, and twice as large.",)
    assert all(made.graph.by_id[each] is base.by_id[each] for each in ("1", "3", "4", "5", "6", "50"))
    assert [spec.type for spec in made.changes.added] == ["Upscale"]
    before, after = json.loads(dump(base, CLASSES)), json.loads(dump(made.graph, CLASSES))
    old, new = ({node["id"]: node for node in each["nodes"]} for each in (before, after))
    assert new[50] == old[50]
    assert all(new[each]["pos"] == old[each]["pos"] and new[each]["color"] == "#123456" for each in old if each != 50)
    assert new[2]["widgets_values"] == ["a harbour"]
    assert new[3] == old[3]
    assert {each["type"] for each in after["nodes"]} - {each["type"] for each in before["nodes"]} == {"Upscale"}


def test_nodes_are_known_again_whatever_a_model_calls_them():
    base = load(CODE.encode())
    plain = "".join(line.partition("  # ")[0] + "\n" for line in reversed(CODE.splitlines()))
    shuffled = plain.replace("CONDITIONING_1", "good").replace("'normal'", "'karras'")
    graph = continued(read_lines(shuffled, CLASSES, base).code, CODE, base)
    assert sorted(graph.by_id) == sorted(base.by_id)
    assert [
        spec.id
        for spec in graph.nodes
        if (spec.type, spec.params) != (base.by_id[spec.id].type, base.by_id[spec.id].params)
    ] == ["5"]
    assert graph.by_id["5"].params["scheduler"] == "karras"


def test_comments_in_words_are_titles_and_no_ids():
    draft = read_answer("X = Empty(width=64)  # The empty canvas\nY = Empty(width=9) # 12:3 Second", CLASSES, NOTHING)
    assert draft.lines == [
        "LATENT_1 = Empty(width=64)  # 1 The empty canvas",
        "LATENT_2 = Empty(width=9)  # 12:3 Second",
    ]


def test_what_was_wrong_before_is_not_found():
    base = load(CODE.replace("Upscale", "Other").replace("'xl.safetensors'", "'none'").encode())
    ship = CODE.splitlines()[2].replace("lighthouse", "ship")
    made = design(Model(change=[lines((3, ship))]), "A ship.", base)
    assert made.accepted, made.findings
    assert made.graph.by_id["1"] is base.by_id["1"]


def test_a_workflow_that_is_too_long_to_be_shown_is_refused():
    base = load(CODE.replace("lighthouse", "lighthouse " * 3_000).encode())
    with ScriptedModel(Model()) as scripted, pytest.raises(InputError, match="a model is shown 20,000"):
        ComfyDesigner(CLASSES, scripted.model).design("More.", base)


def test_classes_are_wanted():
    with pytest.raises(InputError, match="hold no class"):
        ComfyDesigner(Definitions())


async def test_a_stage_that_was_told_of_no_classes_says_so():
    stage = MendCode(OperatorConfig(instruction="Mend."))
    with pytest.raises(InputError, match=r"call use\(definitions\)"):
        await stage.execute(ScriptedReasoner([]), Job(goal="x"), [])


# Official workflows


def test_the_code_of_every_official_workflow_passes_through(shared_data):
    known = read_definitions((shared_data / "comfyui" / "object_info.json").read_text())
    files = sorted((shared_data / "comfyui" / "workflows").iterdir())
    assert len(files) == 37
    left = {}
    for file in files:
        graph = executable(load(file.read_bytes(), file.stem), known)
        draft = read_answer(dump_code(graph, known), known, NOTHING)
        mended, repairs = mend(draft.graph, known)
        assert json.loads(dump_api(mended)) == json.loads(dump_api(graph)), file.name
        assert not repairs
        found = findings(Draft(mended, draft.unread, known))
        own = [each for each in check(graph, known) if each.code != "missing-file"]
        assert len([each for each in found if not each.startswith("[unconnected]")]) == len(own)
        if found:
            left[file.stem] = len(found)
    assert left == {
        "api_tripo3_0_text_to_model": 8,  # of a newer server than that of the definitions
        "basic_mask_operations_and_compositing": 1,  # a picture that nothing takes
        "image_kandinsky5_t2i": 1,
        "image_newbieimage_exp0_1-t2i": 1,
        "image_ovis_text_to_image": 1,
        "templates-photo_to_product_vid": 1,
    }


def test_the_code_of_every_official_workflow_as_the_answer_comes_through(shared_data):
    known = read_definitions((shared_data / "comfyui" / "object_info.json").read_text())
    finished = set()
    for file in sample(sorted((shared_data / "comfyui" / "workflows").iterdir()), 5):
        graph = executable(load(file.read_bytes(), file.stem), known)
        model = Model(
            select=[{"reasoning": "", "classes": ["SaveImage"]}],
            draft=[dump_code(graph, known)],
            mend=[lines((999, "x"))],
        )
        made = design(model, f"Do what {file.stem} does.", definitions=known)
        assert json.loads(dump_api(made.graph)) == json.loads(dump_api(graph)), file.name
        assert made.findings == findings(read_answer(dump_code(graph, known), known, NOTHING))
        finished |= {file.stem} if made.accepted else set()
    assert len(finished) == amount(7, 31)  # all but those with findings of their own


@pytest.mark.slow
def test_an_official_page_stays_byte_for_byte_the_same_but_for_what_is_changed(shared_data):
    known = read_definitions((shared_data / "comfyui" / "object_info.json").read_text())
    for file in sorted((shared_data / "comfyui" / "workflows").iterdir()):
        data = file.read_bytes()
        base = load(data, file.stem)
        with ScriptedModel(Model()) as scripted:
            designer = ComfyDesigner(known, scripted.model)
            try:
                job = designer.job("Nothing new.", base)
            except InputError:
                continue
        code = str(job.inputs["comfyui_code"])
        assert dump(continued(code, code, base), known) == dump(base, known), file.name


def test_a_changed_text_of_an_official_page_changes_one_node(shared_data):
    known = read_definitions((shared_data / "comfyui" / "object_info.json").read_text())
    base = load((shared_data / "comfyui" / "workflows" / "default.json").read_bytes())
    text = next(spec for spec in base.nodes if spec.type == "CLIPTextEncode")
    with ScriptedModel(Model()) as scripted:
        code = str(ComfyDesigner(known, scripted.model).job("x", base).inputs["comfyui_code"])
    old = dump_code(replace(base, nodes=[text], edges=[]), known).partition("text=")[2].split("')")[0]
    number, line = next(each for each in enumerate(code.splitlines(), 1) if old in each[1])
    change = lines((number, line.replace(old, "'a ship")))
    made = design(Model(select=[{"reasoning": "", "classes": ["SaveImage"]}], change=[change]), "A ship.", base, known)
    assert made.accepted, made.findings
    assert [spec.id for spec in made.graph.nodes if spec is not base.by_id[spec.id]] == [text.id]


# The command


@pytest.fixture
def operad(tmp_path, monkeypatch, capfdbinary):
    """Runs the command in a folder with the classes of a server, on a scripted model: status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "classes.json").write_text(json.dumps(OBJECT_INFO))

    def operad(model, *arguments):
        monkeypatch.setattr(sys, "argv", ["operad", "generate", *arguments])
        monkeypatch.setenv("OPENAI_API_KEY", "any")
        with ScriptedModel(model) as scripted:
            monkeypatch.setenv("OPENAI_BASE_URL", scripted.base_url)
            with pytest.raises(SystemExit) as left:
                cli.main()
        out, err = capfdbinary.readouterr()
        return left.value.code or 0, out.decode(), err.decode()

    return operad


def test_the_command_writes_code(operad):
    status, out, err = operad(Model(), INSTRUCTION, "--to", "comfyui-code", "--object-info", "classes.json")
    assert (status, out) == (0, CODE), err


def test_the_command_changes_a_page_and_says_what(operad, tmp_path):
    (tmp_path / "page.comfyui.json").write_bytes(dump(page(), CLASSES))
    old = CODE.splitlines()
    changes = lines((1, old[0].replace("xl.", "other.")), (3, old[2].replace("lighthouse", "harbour")))
    changed = Model(change=[changes])
    given = ["--continue", "page.comfyui.json", "-o", "new.comfyui.json", "--object-info", "classes.json"]
    status, out, err = operad(changed, "A harbour.", *given)
    assert status == 0, err
    assert out.splitlines() == [
        '~ node 1 name: "xl.safetensors" → "other.safetensors"',
        '~ node 2 text: "a lighthouse" → "a harbour"',
    ]
    assert "needed: name: the server has no file 'other.safetensors'" in err
    nodes = {each["id"]: each for each in json.loads((tmp_path / "new.comfyui.json").read_text())["nodes"]}
    assert nodes[2]["widgets_values"] == ["a harbour"]
    assert nodes[50]["widgets_values"] == ["Mind the light."]
    assert all(nodes[each]["color"] == "#123456" for each in range(1, 8))


def test_the_best_attempt_is_written_with_what_is_left(operad):
    model = Model(draft=[BROKEN], mend=[lines((99, ""))])
    status, out, err = operad(model, INSTRUCTION, "--to", "comfyui-code", "--object-info", "classes.json")
    assert status == 1
    assert out == BROKEN
    assert "left: [missing-param] line 3 (TextEncode)" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "comfyui"], "give --object-info"),
        (["--to", "comfyui-api", "--object-info", "none.json"], "no such file"),
        (["--to", "comfyui", "--object-info", "classes.json", "--run", "a=b"], "--run: is for typed nodes"),
        (["--to", "comfyui", "--object-info", "classes.json", "--store", "."], "--store: is for typed nodes"),
        (["--to", "operad", "--object-info", "classes.json", "--continue", "code.py"], "have different node types"),
        (["--to", "mermaid"], "in formats whose nodes run"),
    ],
    ids=lambda each: None if isinstance(each, str) else " ".join(each),
)
def test_what_cannot_be_done_is_said_before_a_model_is_asked(operad, tmp_path, arguments, message):
    (tmp_path / "code.py").write_text(CODE)
    model = Model()
    status, _, err = operad(model, INSTRUCTION, *arguments)
    assert status == 2
    assert message in err
    assert model.asked == []
