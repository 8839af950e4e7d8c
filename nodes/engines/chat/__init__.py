"""Chat engines: each role filled by a language model behind an OpenAI-compatible endpoint.

``open_chat_model`` makes the model, ``ChatPlanner``/``ChatCoder``/``ChatVerifier`` ask it. Names are
loaded on first use, because LangChain takes a second or more to import.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stitchcuda.nodes.engines.chat.answer_cache import AnswerCache
    from stitchcuda.nodes.engines.chat.coder import ChatCoder
    from stitchcuda.nodes.engines.chat.conversation import ChatOptions
    from stitchcuda.nodes.engines.chat.fake_server import FakeAnswer, FakeOpenAIServer
    from stitchcuda.nodes.engines.chat.judge import ChatJudge
    from stitchcuda.nodes.engines.chat.limits import CallLimits
    from stitchcuda.nodes.engines.chat.model import open_chat_model
    from stitchcuda.nodes.engines.chat.planner import ChatPlanner
    from stitchcuda.nodes.engines.chat.prompts import prompt_digest, prompt_digests
    from stitchcuda.nodes.engines.chat.scripted import ScriptedChatModel
    from stitchcuda.nodes.engines.chat.verifier import ChatVerifier

__all__ = [
    "AnswerCache",
    "CallLimits",
    "ChatCoder",
    "ChatJudge",
    "ChatOptions",
    "ChatPlanner",
    "ChatVerifier",
    "FakeAnswer",
    "FakeOpenAIServer",
    "ScriptedChatModel",
    "open_chat_model",
    "prompt_digest",
    "prompt_digests",
]

_MODULES = {
    "AnswerCache": "answer_cache",
    "CallLimits": "limits",
    "ChatCoder": "coder",
    "ChatJudge": "judge",
    "ChatOptions": "conversation",
    "ChatPlanner": "planner",
    "ChatVerifier": "verifier",
    "FakeAnswer": "fake_server",
    "FakeOpenAIServer": "fake_server",
    "ScriptedChatModel": "scripted",
    "open_chat_model": "model",
    "prompt_digest": "prompts",
    "prompt_digests": "prompts",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
