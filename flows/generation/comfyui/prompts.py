"""What the stages of a design for ComfyUI tell a model, and what it may take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from operad.flows.generation.prompts import CHARACTERS_A_TOKEN
from operad.runtime.reasoning.prompt import fence

SELECT_TOKENS = 5_000
DRAFT_TOKENS = 10_000
FIX_TOKENS = 4_000
"""What the prompts of a stage may take, without the user's own instruction, which is never cut."""

CODE_TOKENS = 5_000
"""The longest code of a workflow that is there, which is shown as a whole."""

SELECT_RULES = """\
You choose the classes of a ComfyUI workflow. Name each class that it needs: what loads models, texts and pictures, what \
works on them, and what saves or shows the result. What a class takes, others must give. Take none besides: somebody \
who is told of your classes alone writes the workflow. Classes of "api node" are paid services: take them only if asked \
for."""

DRAFT_RULES = """\
You write a ComfyUI workflow as code, which is read and never run: one call of a class a line, each after those that \
it takes from.
- On the left, one variable for each output of the class, in their order; on the right, each input by its name.
- A value is a literal; an input that others fill is a variable. There is nothing else: no comments but ids, no \
functions, no loops, no arithmetic.
- Give every required input, and options exactly as they are listed. Use only the classes and inputs that you are \
told of. What nobody asked for keeps its default.
- Write prompts for the real work, as rich as what is asked for. The last lines save or show each result.
Answer with all of the code between ```python and ```, and nothing else."""

EDIT_RULES = """\
A workflow is there already. Write all of it anew with what is asked for changed, and copy each line that stays, \
with its id after #, letter by letter. New lines have no id."""

FIX_RULES = """\
You mend the code of a ComfyUI workflow: one call of a class a line, inputs by their names, values as literals. Mend \
what is listed, and leave all else as it is. Answer with the lines that change only: each with its number and its new \
code, which is empty for a line that must go, and may be several lines. The number after the last one adds lines. \
Keep the id after #."""

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
    """Lines of code with their numbers, counted from 1.

    Args:
        lines: The lines.
        numbers: Which of them; None for all.
    """
    wanted = range(1, len(lines) + 1) if numbers is None else dict.fromkeys(numbers)
    shown = [f"{number}: {lines[number - 1]}" for number in wanted if 1 <= number <= len(lines)]
    return fence("\n".join(shown)) if shown else ""


def fits(code: str) -> bool:
    """Whether code can be shown as a whole."""
    return len(code) <= CHARACTERS_A_TOKEN * CODE_TOKENS
