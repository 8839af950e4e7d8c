"""What an endpoint takes and gives, found out once: endpoints of one protocol differ.

The first real call is the probe: it asks for everything that the settings want, and what the endpoint refuses by
name is left out and remembered. A window that an endpoint tells (its model list, or its refusal of a long prompt)
is remembered too. Profiles are kept in the cache folder; a setting overrides each field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from stitchcuda.core.errors import SettingsError, one_line
from stitchcuda.core.files import sha256_text, write_json
from stitchcuda.core.records import Record

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

__all__ = [
    "Endpoint",
    "EndpointProfile",
    "endpoint_of",
    "forget_endpoints",
    "names_tools",
    "refusal_text",
    "register_endpoint",
    "told_prompt_tokens",
    "told_window",
    "window_in_listing",
]

CALIBRATION_TOKENS = 200
"""Prompts shorter than this say little about a tokenizer."""


class EndpointProfile(Record):
    """What may be sent to an endpoint, and what comes back."""

    token_parameter: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    """The name of the limit on an answer."""
    structured: Literal["json_schema", "json_object", "none"] = "json_schema"
    """How a structured answer is asked for; with ``none`` by the prompt alone."""
    stream: bool = True
    stream_usage: bool = True
    """Whether ``stream_options`` may ask for the token figures."""
    temperature: bool = True
    seed: bool = True
    reasoning_effort: bool = True
    tools: bool = True
    """Whether functions may be offered for the model to call."""
    context_tokens: int | None = None
    tokens_per_estimate: float = 1.0
    """Tokens that the endpoint counts for one that ``estimate_tokens`` counts."""

    def without(self, refusal: str, sent: frozenset[str]) -> EndpointProfile | None:
        """This profile less what ``refusal`` names among the features ``sent``; ``None`` when it names none of them."""
        text = refusal.lower()
        if "limit" in sent and re.search(r"max_(completion_|new_|output_)?tokens", text):
            other: Literal["max_tokens", "max_completion_tokens"] = (
                "max_tokens" if self.token_parameter == "max_completion_tokens" else "max_completion_tokens"
            )
            return self.model_copy(update={"token_parameter": other})
        if "stream_usage" in sent and re.search(r"stream_options|include_usage", text):
            return self.model_copy(update={"stream_usage": False})
        for name in ("temperature", "seed"):
            if name in sent and re.search(rf"\b{name}\b", text):
                return self.model_copy(update={name: False})
        if "reasoning_effort" in sent and "reasoning" in text:
            return self.model_copy(update={"reasoning_effort": False})
        if "structured" in sent and re.search(r"json_schema|strict", text) and self.structured == "json_schema":
            return self.model_copy(update={"structured": "json_object"})
        if "structured" in sent and re.search(r"response_format|json_object|json_schema|schema|grammar", text):
            return self.model_copy(update={"structured": "none"})
        if "stream" in sent and re.search(r"\bstream(ing)?\b", text):
            return self.model_copy(update={"stream": False})
        return None


class Endpoint:
    """One model at one address, as this process knows it; shared by all engines that use it."""

    def __init__(self, key: tuple[str, str] | None, cache_dir: Path | None, override: Mapping[str, Any]) -> None:
        self.key = key
        self.answered = False
        """Whether it ever answered: one that did may be restarting, one that never did has a wrong address."""
        self.probed = False
        self.override = dict(override)
        self._path = _profile_path(key, cache_dir)
        self.profile = self._stored()

    def _stored(self) -> EndpointProfile:
        stored: dict[str, Any] = {}
        if self._path is not None and self._path.exists():
            try:
                value = json.loads(self._path.read_text(encoding="utf-8"))
                stored = EndpointProfile.model_validate(value["profile"]).model_dump()
            except (OSError, ValueError, KeyError, TypeError):  # half a file, or an older form: found out anew
                stored = {}
        try:
            return EndpointProfile.model_validate({**stored, **self.override})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise SettingsError(f"endpoint: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error

    def learn(self, profile: EndpointProfile) -> None:
        """Remember ``profile``, for later runs too; what a setting says stays as it is."""
        profile = profile.model_copy(update=self.override)
        if profile == self.profile:
            return
        self.profile = profile
        if self._path is not None and self.key is not None:
            try:
                write_json(self._path, {"model": self.key[1], "profile": profile.model_dump(mode="json")})
            except OSError:  # a cache that cannot be written costs the next run a question, no more
                self._path = None

    def calibrate(self, estimated: int, reported: int) -> None:
        """Enter what the endpoint counted for a prompt that was estimated at ``estimated`` tokens."""
        if estimated < CALIBRATION_TOKENS or reported < CALIBRATION_TOKENS:
            return
        ratio = min(4.0, max(0.25, reported / estimated))
        # Underestimates cost a refused call, overestimates a little evidence: go up at once, come down slowly.
        old = self.profile.tokens_per_estimate
        new = ratio if ratio > old else 0.8 * old + 0.2 * ratio
        if abs(new - old) > 0.02 * old:
            self.learn(self.profile.model_copy(update={"tokens_per_estimate": round(new, 3)}))


_ENDPOINTS: dict[tuple[str, str], Endpoint] = {}


def register_endpoint(base: str, name: str, cache_dir: Path | None, override: Mapping[str, Any]) -> Endpoint:
    """The endpoint of the model ``name`` at ``base``; its profile is read from ``cache_dir`` on first use.

    Raises:
        SettingsError: ``override`` has a field or a value that a profile cannot have.
    """
    known = _ENDPOINTS.get((base, name))
    if known is None or known.override != dict(override):
        known = _ENDPOINTS[base, name] = Endpoint((base, name), cache_dir, override)
    return known


def endpoint_of(model: BaseChatModel) -> Endpoint:
    """What is known of the endpoint of ``model``; the same object for all models of one name at one address."""
    base, name = getattr(model, "openai_api_base", None), getattr(model, "model_name", None)
    if not isinstance(base, str) or not isinstance(name, str):
        return Endpoint(None, None, {"structured": "none", "stream": False, "tools": False})
    return _ENDPOINTS.get((base, name)) or register_endpoint(base, name, None, {})


def forget_endpoints() -> None:
    """Know nothing of any endpoint, as a new process does; what lies in the cache folder stays."""
    _ENDPOINTS.clear()


def _profile_path(key: tuple[str, str] | None, cache_dir: Path | None) -> Path | None:
    if key is None or cache_dir is None:
        return None
    return cache_dir / f"{sha256_text(f'{key[0]} {key[1]}')[:24]}.json"


_WINDOW = re.compile(
    r"(?:maximum|max)[ _-]*(?:model[ _-]*len(?:gth)?|context[ _-]*(?:length|window|size))\D{0,40}?(\d{3,8})"
    r"|context[ _-]*(?:length|window|size)\D{0,30}?(\d{3,8})|n_ctx\D{0,12}?(\d{3,8})",
    re.IGNORECASE,
)


def told_window(text: str) -> int | None:
    """The context window in tokens that a refusal names, for example ``maximum context length is 8192 tokens``."""
    match = _WINDOW.search(text)
    return int(next(group for group in match.groups() if group)) if match else None


_PART = re.compile(r"(\d+)\s+(?:tokens\s+)?in the (?:messages|prompt|input)", re.IGNORECASE)
_COUNT = re.compile(
    r"(?:resulted in|requested|contains?|has)\s+(?:at least\s+)?(\d+)\s+(?:input\s+|prompt\s+)?tokens", re.IGNORECASE
)


def told_prompt_tokens(text: str) -> int | None:
    """How many tokens a refusal says that the prompt has."""
    match = _PART.search(text) or _COUNT.search(text)
    return int(match.group(1)) if match else None


def window_in_listing(listing: object, name: str) -> int | None:
    """The context window that a model list tells: vLLM's ``max_model_len``, llama.cpp's ``meta.n_ctx``, and others'."""
    entries = listing.get("data") if isinstance(listing, dict) else None
    if not isinstance(entries, list):
        return None
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("id") != name:
            continue
        nested = entry.get("meta") if isinstance(entry.get("meta"), dict) else {}
        for place in (entry, nested):
            for field in ("max_model_len", "n_ctx", "context_length", "context_window", "max_context_length"):
                value = place.get(field) if isinstance(place, dict) else None
                if isinstance(value, int) and not isinstance(value, bool) and value >= 256:
                    return value
    return None


def names_tools(refusal: str) -> bool:
    """Whether a refusal is about tools: their parameter, or the model's want of them."""
    return (
        re.search(r"\btools?\b|tool[_ ](?:choice|use|calls?|calling)|\bfunction.calling", refusal.lower()) is not None
    )


def refusal_text(error: BaseException) -> str:
    """What an endpoint said with a refusal, for ``EndpointProfile.without``."""
    return f"{getattr(error, 'param', '') or ''} {one_line(error, 2000)}"
