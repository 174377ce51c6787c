"""ComfyFlow: scores of ComfyUI workflows that models wrote, and the reward to train them with.

Source: "ComfyFlow: Benchmarking LLMs for AIGC Workflow Generation".
"""

from operad.integrations.comfyui.comfyflow.answer import Answer, read_answer
from operad.integrations.comfyui.comfyflow.evaluator import ComfyFlowEvaluator
from operad.integrations.comfyui.comfyflow.score import (
    ComfyScore,
    Rates,
    Reward,
    by_difficulty,
    difficulty,
    rates,
    reward,
    score,
)

__all__ = [
    "Answer",
    "ComfyFlowEvaluator",
    "ComfyScore",
    "Rates",
    "Reward",
    "by_difficulty",
    "difficulty",
    "rates",
    "read_answer",
    "reward",
    "score",
]
