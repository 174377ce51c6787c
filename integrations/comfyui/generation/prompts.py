"""Prompts of the stages of a design for ComfyUI, and their budgets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from operad.runtime.values.text import fence

SELECT_TOKENS = 6_000
DRAFT_TOKENS = 10_000
FIX_TOKENS = 4_000
"""Maximum number of tokens of a stage's prompt, without the user's instruction, which is never cut."""

CODE_TOKENS = 5_000
"""Maximum number of tokens of the code of an existing workflow, which is always shown as a whole."""

SELECT_RULES = """\
You choose the classes of a ComfyUI workflow. Name every class that the workflow needs: those that load models, texts \
and pictures, those that work on them, and those that save or show the result. For every input \
that is not a plain value, also choose a class that outputs it. Name no others: the workflow will be written with these \
classes only. \
Classes marked "api node" are paid services: choose them only if the user asks for them. \
`notes` tell the user what you assumed; `left_out` holds what no class can do, as {what: why}."""

SELECT_EDIT_RULES = """\
A workflow exists already, and the job changes it. Name all classes of the changed workflow, also those that remain."""

_CODE = """\
The code is parsed, not run. Each line calls one class; a line comes after the lines whose outputs it uses.
- Left of =, write one variable for each output of the class, in order. Right of it, write the inputs as keywords.
- An input is a literal, or a variable of an earlier line. Functions, loops, arithmetic and comments are not allowed.
- Write every required input. Write options exactly as they are listed; long lists are \
shortened. Use only the classes and inputs listed below. \
Leave out optional inputs that the user did not ask for: they keep their defaults.
- Write prompts in full detail, as the user would want them. Save or show every result at the end.
"""

_LINES = """\
Answer with changed lines only, each as its number and its new code. Empty code deletes the line; several lines with one \
number replace it, in order. The number after the last line adds lines at the end. Keep the id after # of a line that stays; \
new lines have none. `notes` tell the user what you assumed."""

DRAFT_RULES = f"""\
You write a ComfyUI workflow as code. {_CODE}\
Answer with the complete code between ```python and ```, and nothing else."""

CHANGE_RULES = f"""\
You change a ComfyUI workflow, which is shown as code, as the job asks, and nothing else. {_CODE}\
{_LINES}"""

FIX_RULES = f"""\
You correct the code of a ComfyUI workflow. Each line calls one class, with inputs as keywords and values as literals. \
Correct the listed findings and change nothing else. {_LINES}"""

EXAMPLE = """\
MODEL_1, CLIP_1, VAE_1 = CheckpointLoaderSimple(ckpt_name='sd_xl_base_1.0.safetensors')
CONDITIONING_1 = CLIPTextEncode(text='a lighthouse at dusk, oil on canvas', clip=CLIP_1)
CONDITIONING_2 = CLIPTextEncode(text='blurred', clip=CLIP_1)
LATENT_1 = EmptyLatentImage(width=1024, height=1024, batch_size=1)
LATENT_2 = KSampler(seed=1, steps=20, cfg=8.0, sampler_name='euler', scheduler='normal', denoise=1.0, model=MODEL_1, \
positive=CONDITIONING_1, negative=CONDITIONING_2, latent_image=LATENT_1)
IMAGE_1 = VAEDecode(samples=LATENT_2, vae=VAE_1)
SaveImage(filename_prefix='lighthouse', images=IMAGE_1)"""


def numbered(lines: Sequence[str], numbers: Iterable[int] | None = None) -> str:
    """Return lines of code with their numbers, counted from 1, between fences.

    Args:
        lines: The lines.
        numbers: Numbers of the lines to return; None for all.
    """
    wanted = range(1, len(lines) + 1) if numbers is None else dict.fromkeys(numbers)
    shown = [f"{number}: {lines[number - 1]}" for number in wanted if 1 <= number <= len(lines)]
    return fence("\n".join(shown)) if shown else ""
