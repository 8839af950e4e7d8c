"""Run settings: what a user may choose for a run. Studio shows the fields as a form.

Secrets and host paths are not in here (``core.environment``); the resolved settings are written
beside each run in ``run.json``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from stitchcuda.core.records import Policy

__all__ = ["Context"]

Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(gt=0)]
Price = Annotated[float, Field(ge=0)]
Role = Literal["planner", "coder", "verifier"]


def _pairs(value: object) -> object:
    """``name=value,name=value`` as a mapping, for flags and files that know no tables; ``a/b`` is a pair."""
    if not isinstance(value, str):
        return value
    found: dict[str, object] = {}
    for part in filter(None, (part.strip() for part in value.split(","))):
        name, equals, text = part.rpartition("=")
        if not equals:
            raise ValueError(f"{part!r} is not NAME=VALUE")
        found[name.strip()] = tuple(text.split("/")) if "/" in text else text.strip()
    return found


Pairs = BeforeValidator(_pairs)


class Context(BaseModel):
    """Everything that a run depends on beside the problem, the machine and the secrets."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    device: str = Field(
        default="auto", pattern=r"^(auto|cpu|cuda(:\d+)?)$", description="Where candidates run: auto, cpu or cuda:N."
    )
    policy: Policy = Field(
        default="libraries", description="Which work may be done by others: own-kernels, libraries or any."
    )

    planner: str = Field(default="embedded", description="Planner engine: embedded, openai:<model> or scripted:<file>.")
    coder: str = Field(default="embedded", description="Coder engine: embedded, openai:<model> or scripted:<file>.")
    verifier: str = Field(
        default="embedded", description="Verifier engine: embedded, openai:<model> or scripted:<file>."
    )
    base_url: str | None = Field(default=None, description="OpenAI-compatible endpoint of the chat engines.")
    endpoint: Annotated[dict[str, str | int | float | bool], Pairs] = Field(
        default={},
        description="What is known of the endpoint and need not be found out, for example "
        "token_parameter=max_tokens,stream=false.",
    )
    temperature: float | None = Field(default=None, ge=0, le=2, description="Sampling temperature of chat engines.")
    temperatures: Annotated[dict[Role, Annotated[float, Field(ge=0, le=2)]], Pairs] = Field(
        default={}, description="Temperature of single roles, for example planner=0.2,coder=0.8."
    )
    reasoning_effort: str | None = Field(
        default=None, description="Reasoning effort of chat engines, for example low, medium or high; unset: not sent."
    )
    chat_seed: int | None = Field(default=None, description="Sampling seed sent to chat engines; unset: none.")
    context_tokens: int | None = Field(
        default=None, ge=1024, description="Context window of the chat models, in tokens; unset: found out."
    )
    concurrency: Annotated[int, Field(ge=1)] = Field(default=4, description="Chat calls to one endpoint at a time.")
    stream: bool = Field(default=True, description="Receive chat answers piece by piece and show their progress.")
    cache_answers: bool = Field(
        default=True, description="Take a chat answer that was given before from the cache; false: ask anew."
    )
    seed_embedded: bool = Field(
        default=False, description="A chat Coder starts from the embedded engine's candidate and its evaluation."
    )
    samples: Annotated[int, Field(ge=1, le=32)] = Field(
        default=1, description="Candidates that a chat Coder writes per attempt; the best one counts."
    )
    model_timeout_s: Seconds = Field(default=300.0, description="Wall-clock limit of one chat call, in seconds.")
    model_retries: Count = Field(default=4, description="How often a failed chat call is tried again.")
    max_output_tokens: int | None = Field(default=None, gt=0, description="Limit on one answer, in tokens.")

    max_attempts: Annotated[int, Field(ge=1)] = Field(default=20, description="Candidates that may be evaluated.")
    max_replans: Count = Field(default=2, description="How often the Planner may be asked again.")
    max_seconds: Seconds = Field(default=3600.0, description="Wall-clock budget of the run, in seconds.")
    max_tokens: int | None = Field(default=None, gt=0, description="Token budget of all chat calls together.")
    max_cost_usd: float | None = Field(
        default=None, gt=0, description="Money budget of all chat calls together, in US dollars; needs prices."
    )
    prices: Annotated[dict[str, tuple[Price, Price]], Pairs] = Field(
        default={},
        description="Dollars per million tokens of prompt and answer by model name, for example gpt-x=1.25/10.",
    )
    target_speedup: float | None = Field(
        default=None, gt=0, description="Stop at this speed-up over eager once no sub-task is left; unset: best effort."
    )
    patience: Annotated[int, Field(ge=1)] = Field(
        default=3, description="Passed candidates without a gain before optimising ends."
    )
    repair_limit: Annotated[int, Field(ge=1)] = Field(
        default=3, description="Failures of one class in a row before the sub-task is replanned or skipped."
    )

    trials: Annotated[int, Field(ge=2)] = Field(default=5, description="Correctness trials per candidate.")
    seed: int | None = Field(default=None, description="Seed of the evaluator's inputs; unset: secret, from the OS.")
    build_timeout_s: Seconds = Field(default=600.0, description="Wall-clock limit of one build, in seconds.")
    call_timeout_s: Seconds = Field(default=120.0, description="Wall-clock limit of one candidate call, in seconds.")
    timing_budget_s: Seconds = Field(default=10.0, description="Seconds spent on timing one candidate.")
    cross_compile: str | None = Field(
        default="sm_90", description="On cpu with nvcc present: also compile for this GPU target; unset: do not."
    )

    retrieval: bool = Field(default=True, description="Look up the documentation index for Planner and Verifier.")
    retrieval_tool: bool = Field(
        default=False,
        description="Chat models may search the documentation index themselves, where the endpoint takes tools.",
    )
    review_plan: bool = Field(
        default=False, description="Stop after the Planner so that a person can edit the plan, then resume."
    )
    run_dir: Path | None = Field(default=None, description="Run folder; unset: a new one under runs_dir.")
    runs_dir: Path = Field(default=Path("runs"), description="Where new run folders are made.")

    @property
    def engines(self) -> dict[Role, str]:
        return {"planner": self.planner, "coder": self.coder, "verifier": self.verifier}

    @property
    def recursion_limit(self) -> int:
        """LangGraph's step limit, from the budget: a candidate passes coder, verifier's stages and route."""
        return 20 + 12 * self.max_attempts + 4 * self.max_replans
