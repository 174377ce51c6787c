"""Profiles: what models can, by patterns of their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Literal

from pydantic import JsonValue

from operad.runtime.models.settings import ModelSettings
from operad.runtime.values.file import IMAGE_TYPES, PDF

Thinks = Literal["never", "on request", "by default", "always"]
"""Reasoning of a model before it answers, and the possibility to turn it off."""

OffField = Literal["reasoning_effort", "thinking", "enable_thinking", "unknown"]
"""Field of a request that turns reasoning off; ``unknown`` if the endpoint does not take ``reasoning_effort: none``."""

_OFF: Mapping[OffField, dict[str, JsonValue]] = {
    "thinking": {"thinking": {"type": "disabled"}},
    "enable_thinking": {"enable_thinking": False},
}
"""Fields of vendors of the chat-completions protocol that turn reasoning off in a way of their own."""

_ON: Mapping[OffField, dict[str, JsonValue]] = {
    "thinking": {"thinking": {"type": "enabled"}},
    "enable_thinking": {"enable_thinking": True},
}
"""The same fields for models that can only be asked to reason, without an effort."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Abilities of a model.

    Attributes:
        tools: ``native`` if it takes tools by the protocol's tool calls; ``constrained`` if it chooses them by a JSON Schema.
        structured: True if its endpoint enforces a JSON Schema of the answer.
        vision: True if it takes images.
        documents: True if it takes PDF documents.
        thinks: Its reasoning; None if that is unknown, so that all settings are sent.
        off: Field of a request that turns reasoning off.
        efforts: True if it takes efforts of reasoning; False if it can only be asked to reason, or not to.
        sampling: Calls in which it takes `temperature` and `top_p`: always, only if it does not reason in a call, or never.
        both: True if it takes `temperature` and `top_p` in one call.
        context: Maximum number of tokens of prompt and answer; None if it is unknown.
    """

    tools: Literal["native", "constrained"] = "native"
    structured: bool = True
    vision: bool = False
    documents: bool = False
    thinks: Thinks | None = None
    off: OffField = "reasoning_effort"
    efforts: bool = True
    sampling: Literal["always", "without thinking", "never"] = "always"
    both: bool = True
    context: int | None = None

    @property
    def takes(self) -> tuple[str, ...]:
        """Types of the images and documents that it takes."""
        return (*(IMAGE_TYPES if self.vision else ()), *((PDF,) if self.documents else ()))

    def accepted(self, settings: ModelSettings) -> tuple[ModelSettings, tuple[str, ...]]:
        """Return the settings that the model takes, and the names of the others, each with the reason."""
        reasons: dict[str, str] = {}
        asked = settings.thinking
        if self.thinks == "never" and asked == "off":
            settings, asked = settings.model_copy(update={"thinking": None}), None  # as it is
        elif self.thinks == "never" and asked:
            reasons["thinking"] = "the model does not reason"
        elif self.thinks == "always" and asked == "off":
            reasons["thinking"] = "the model always reasons"
        elif asked == "off" and self.off == "unknown":
            reasons["thinking"] = "no way to turn reasoning off is known for this model"
        elif asked == "off" and self.off in _OFF:
            parameters = {**_OFF[self.off], **settings.parameters}
            settings = settings.model_copy(update={"thinking": None, "parameters": parameters})
        elif asked and not self.efforts:
            parameters = {**_ON[self.off], **settings.parameters}
            settings = settings.model_copy(update={"parameters": parameters})
            reasons["thinking"] = "the model takes no effort; it is asked to reason"
        may_choose = self.thinks in ("on request", "by default", None)
        thinks = asked != "off" if asked and may_choose else self.thinks in ("by default", "always")
        if self.sampling == "never" or (self.sampling == "without thinking" and thinks):
            why = "the model takes none" if self.sampling == "never" else "the model takes none while it reasons"
            reasons |= {name: why for name in ("temperature", "top_p") if getattr(settings, name) is not None}
        elif not self.both and None not in (settings.temperature, settings.top_p):
            reasons["top_p"] = "the model takes either temperature or top_p"
        if not reasons:
            return settings, ()
        dropped = tuple(f"{name}: {why}" for name, why in reasons.items())
        return settings.model_copy(update=dict.fromkeys(reasons)), dropped

    def overridden(self, **given: Any) -> Profile:
        """Return this profile with the values that are not None in place of its own."""
        return replace(self, **{name: value for name, value in given.items() if value is not None})


OVERRIDDEN = ("tools", "structured", "vision")
"""Fields that a `Model` overrides."""


@lru_cache(maxsize=256)
def profile_of(name: str, vendor: str = "") -> Profile:
    """Return the profile of a model: that of the first pattern that its name matches; the usual one for others.

    Args:
        name: Name of the model at its endpoint; what precedes a slash, such as the maker of a model, does not count.
        vendor: Prefix of its vendor.
    """
    short = name.lower().rpartition("/")[2]
    for patterns, profile in _PROFILES:
        for pattern in patterns.split():
            place, _, wanted = pattern.rpartition("/")
            if place in ("", vendor) and fnmatchcase(short, wanted):
                return profile
    return Profile()


def _sees(thinks: Thinks, context: int | None, sampling: Any = "without thinking", **others: Any) -> Profile:
    return Profile(vision=True, documents=True, thinks=thinks, sampling=sampling, context=context, **others)


def _reads(thinks: Thinks, context: int | None, **others: Any) -> Profile:
    return Profile(thinks=thinks, context=context, **others)


_SEES = Profile(vision=True)

_PROFILES: tuple[tuple[str, Profile], ...] = (
    # OpenAI
    ("gpt-6-astra* gpt-6.1-sol*", _sees("always", 1_050_000)),
    ("gpt-6* gpt-5.6*", _sees("by default", 1_050_000)),
    ("gpt-5.5-pro* gpt-5.4-pro*", _sees("always", 1_050_000)),
    ("gpt-5.2-pro* gpt-5-pro* gpt-5.1-codex*", _sees("always", 400_000)),
    ("gpt-5.[1-3]-chat*", _sees("always", 128_000)),
    ("gpt-5.5*", _sees("by default", 1_000_000)),
    ("gpt-5.4-mini* gpt-5.4-nano*", _sees("on request", 400_000)),
    ("gpt-5.4*", _sees("on request", 1_050_000)),
    ("gpt-5.[1-3]*", _sees("on request", 400_000)),
    ("gpt-5-chat*", _sees("never", 128_000)),
    ("gpt-5*", _sees("always", 400_000)),
    ("gpt-4.1*", _sees("never", 1_000_000)),
    ("gpt-4o-audio* gpt-4o-mini-audio* gpt-4o-search* gpt-4o-mini-search*", _reads("never", 128_000)),
    ("gpt-4o* chatgpt-4o*", _sees("never", 128_000)),
    ("gpt-4-turbo*", _sees("never", 128_000, structured=False)),
    ("gpt-4 gpt-4-* gpt-3.5*", _reads("never", None, structured=False)),
    ("o1-mini* o3-mini*", _reads("always", 200_000, sampling="never")),
    ("o1* o3* o4*", _sees("always", 200_000)),
    ("gpt-oss*", _reads("always", 131_072)),
    # Anthropic, also at Bedrock
    ("*claude-opus-4-[78]* *claude-opus-5*", _sees("on request", 1_000_000, "never")),
    ("*claude-sonnet-5* *claude-haiku-5*", _sees("on request", 1_000_000, "never")),
    ("*claude-fable* *claude-mythos*", _sees("by default", 1_000_000, "never")),
    ("*claude-opus-4-6* *claude-sonnet-4-6*", _sees("on request", 1_000_000, both=False)),
    ("*claude-opus-4-1* *claude-opus-4-5*", _sees("on request", 200_000, both=False)),
    ("*claude-sonnet-4-5* *claude-haiku-4-5*", _sees("on request", 200_000, both=False)),
    ("*claude-3-haiku* *claude-3-5* *claude-3-opus* *claude-3-sonnet*", _sees("never", 200_000)),
    ("*claude-2* *claude-v2* *claude-instant*", _reads("never", 100_000, tools="constrained", structured=False)),
    ("*claude-*", _sees("on request", 200_000)),
    # Google
    ("gemini-embedding* gemini-*-tts*", Profile()),
    ("gemini-2.5-flash*", _sees("by default", 1_000_000, "always")),
    ("gemini-2.5-pro* gemini-3* gemini-4*", _sees("always", 1_000_000, "always")),
    ("gemini-2.0* gemini-1.5*", _sees("never", 1_000_000, "always")),
    ("gemini-*", _sees("by default", 1_000_000, "always")),
    ("gemma-4* gemma4*", Profile(vision=True, context=262_144)),
    ("gemma-3n* gemma3n* gemma-3-1b* gemma3:1b* gemma3:270m*", Profile()),
    ("gemma-3* gemma3*", Profile(vision=True, context=131_072)),
    # Mistral
    ("mistral-large-24* mistral-small-24* mistral-small-2501* mistral-medium-23*", Profile()),
    ("mistral-large-4*", Profile(vision=True, context=1_048_576)),
    ("mistral/mistral-large* mistral/mistral-medium* mistral/mistral-small*", Profile(vision=True, context=262_144)),
    ("mistral-small3.[12]* mistral-small-3.[12]* pixtral* ministral-*-2512*", _SEES),
    # Others; DeepSeek's own endpoint enforces no JSON Schemas
    (
        "deepseek/deepseek-v4* deepseek/deepseek-flash*",
        _reads("by default", 1_000_000, structured=False, off="thinking"),
    ),
    ("deepseek/deepseek-reasoner*", _reads("always", None, structured=False)),
    ("deepseek/*", Profile(structured=False, off="unknown")),
    ("deepseek-v4*", Profile(context=1_000_000)),
    ("grok-code* grok-build*", Profile(context=256_000)),
    ("grok-4-fast* grok-4-1-fast*", Profile(vision=True, context=2_000_000)),
    ("grok-4 grok-4-0709*", _sees("always", 256_000, "always")),
    ("grok-4.[5-9]*", Profile(vision=True, thinks="always", context=500_000)),
    ("grok-4.*", Profile(vision=True, context=1_000_000)),
    ("grok-2-vision*", Profile(vision=True, context=32_768)),
    ("moonshot/kimi-k3*", Profile(vision=True, thinks="always", context=1_048_576)),
    ("moonshot/kimi-k2.[56]*", Profile(vision=True, thinks="by default", off="thinking", context=262_144)),
    ("moonshot/kimi-k2.[7-9]*", Profile(vision=True, thinks="always", context=262_144)),
    ("moonshot/kimi-k2-thinking*", _reads("always", 262_144)),
    ("moonshot/*", Profile(off="unknown")),
    ("kimi-k3*", Profile(vision=True, context=1_048_576)),
    ("kimi-k2.[5-9]*", Profile(vision=True, context=262_144)),
    ("kimi-k2*", Profile(context=262_144)),
    ("zai/glm-5.3* zhipu/glm-5.3*", _reads("always", 1_000_000)),
    ("zai/glm-5.2* zhipu/glm-5.2*", _reads("by default", 1_000_000, off="thinking")),
    ("zai/glm-4.[56]v* zhipu/glm-4.[56]v*", Profile(vision=True, thinks="by default", off="thinking", efforts=False)),
    (
        "zai/glm-5* zai/glm-4.[5-7]* zhipu/glm-5* zhipu/glm-4.[5-7]*",
        _reads("by default", None, off="thinking", efforts=False),
    ),
    ("zai/glm-4v* zai/glm-4.1v* zhipu/glm-4v* zhipu/glm-4.1v*", Profile(vision=True, off="unknown")),
    ("zai/* zhipu/*", Profile(off="unknown")),
    ("glm-5.[23]*", Profile(context=1_000_000)),
    ("glm-4.[56]v* glm-4v* glm-4.1v*", _SEES),
    ("alibaba/qwen3-vl-*-thinking*", Profile(vision=True, thinks="always")),
    ("alibaba/qwen*-thinking* alibaba/qwq*", _reads("always", None)),
    ("alibaba/qwen3-vl-*-instruct*", Profile(vision=True, off="unknown")),
    ("alibaba/qwen3-vl*", Profile(vision=True, off="enable_thinking", efforts=False)),
    ("alibaba/qwen*-vl* alibaba/qwen*vl* alibaba/qwen-omni* alibaba/qwen3-omni*", Profile(vision=True, off="unknown")),
    ("alibaba/qwen*-instruct* alibaba/qwen*-coder*", Profile(off="unknown")),
    (
        "alibaba/qwen3* alibaba/qwen-plus* alibaba/qwen-flash* alibaba/qwen-turbo*",
        Profile(off="enable_thinking", efforts=False),
    ),
    ("alibaba/* perplexity/*", Profile(off="unknown")),
    ("qwen*-vl* qwen*vl* qwen-omni* qwen3-omni*", _SEES),
    ("llama-4* llama4* llama3.2-vision* llama-3.2-*-vision*", _SEES),
    ("llava* bakllava* moondream* minicpm-v* granite3.2-vision*", _SEES),
    ("*amazon.nova-micro*", Profile(context=128_000)),
    ("*amazon.nova-*", Profile(vision=True, documents=True, context=300_000)),
)
"""Profiles by patterns, with the vendor where only its own endpoint counts; the first match is taken."""
