"""Fit a prompt to the context window: the least useful evidence goes first, and the prompt says what went.

Never cut: the reference source, the sub-task, the candidate to start from, the feedback. What is left then goes as it
is; an endpoint that refuses it gets its word.
"""

from __future__ import annotations

from collections.abc import Callable

from stitchcuda.core.records import Record
from stitchcuda.nodes.engines.chat.limits import CallLimits
from stitchcuda.nodes.engines.chat.profile import EndpointProfile
from stitchcuda.nodes.engines.chat.tokens import estimate_tokens

__all__ = ["WHOLE", "Cuts", "fit", "prompt_budget"]

OUTPUT_SHARE = 3
"""Without a limit on answers a third of the window is kept for one."""
OUTPUT_RESERVE = 16_384
MARGIN = 0.95
"""Estimates of tokens are off by some per cent even after calibration."""


class Cuts(Record):
    """How much of each kind of evidence a prompt shows: lines, or passages."""

    citations: int = 6
    citation_chars: int = 1500
    history: int = 12
    profile: int = 60
    ops: int = 300
    plan: int = 50
    evaluation: int = 60
    left_out: str = ""
    """What the prompt says about the cuts."""


WHOLE = Cuts()

_LADDER: tuple[tuple[str, dict[str, int]], ...] = (
    ("documentation passages beyond the best three", {"citations": 3}),
    ("profile rows beyond the largest 24", {"profile": 24}),
    ("attempts before the last six", {"history": 6}),
    ("op graph lines after the first 120", {"ops": 120}),
    ("documentation passages beyond the best one, shortened", {"citations": 1, "citation_chars": 600}),
    ("profile rows beyond the largest ten", {"profile": 10}),
    ("all documentation passages", {"citations": 0}),
    ("attempts before the last two", {"history": 2}),
    ("op graph lines after the first 40", {"ops": 40}),
    ("plan lines after the first twelve", {"plan": 12}),
    ("evaluation lines after the first 20", {"evaluation": 20}),
    ("the profile", {"profile": 0}),
    ("earlier attempts", {"history": 0}),
    ("the op graph", {"ops": 0}),
    ("evaluation lines after the first eight", {"evaluation": 8}),
)
"""From what is missed least to what is missed most."""


def prompt_budget(limits: CallLimits, profile: EndpointProfile) -> int | None:
    """Tokens that a prompt may have; ``None`` while nothing is known of the window."""
    window = limits.context_tokens or profile.context_tokens
    if window is None:
        return None
    reserve = limits.max_output_tokens or min(OUTPUT_RESERVE, window // OUTPUT_SHARE)
    return int(max(window - reserve, window // 4) * MARGIN)


def fit(
    prompts: Callable[[Cuts], tuple[str, str]], budget: int | None, tokens_per_estimate: float
) -> tuple[str, str, str]:
    """System prompt, question, and what was left out: the fullest that has at most ``budget`` tokens."""
    cuts, told = WHOLE, dict[str, str]()
    system, question = prompts(cuts)
    for words, change in _LADDER:
        if budget is None or (estimate_tokens(system) + estimate_tokens(question)) * tokens_per_estimate <= budget:
            break
        cuts = cuts.model_copy(update=change)
        shorter = prompts(cuts)
        if shorter == (system, question):
            continue  # there is nothing of this kind: nothing was left out
        told[next(iter(change))] = words  # a further cut of one kind replaces what was said of it
        cuts = cuts.model_copy(update={"left_out": "; ".join(told.values())})
        system, question = prompts(cuts)
    return system, question, cuts.left_out
