"""Options that several commands share, and how they become layers of settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from stitchcuda.core.errors import SettingsError

__all__ = [
    "AsJson",
    "BaseUrl",
    "Coder",
    "Device",
    "HuggingFace",
    "KernelBench",
    "Level",
    "MaxAttempts",
    "MaxCost",
    "MaxReplans",
    "MaxSeconds",
    "MaxTokens",
    "Model",
    "NoCache",
    "Planner",
    "PolicyOption",
    "ReasoningEffort",
    "Samples",
    "Seed",
    "SeedEmbedded",
    "SetOption",
    "SettingsFile",
    "TargetSpeedup",
    "Trials",
    "Verifier",
]

SPEC = "embedded, openai:NAME or scripted:FILE"

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object; progress goes to stderr.")]
Device = Annotated[str | None, typer.Option(help="auto, cpu or cuda:N.", show_default="auto", metavar="DEVICE")]
Model = Annotated[str | None, typer.Option(help=f"Engine of all three roles: {SPEC}.", metavar="SPEC")]
Planner = Annotated[str | None, typer.Option(help="Engine of the Planner; beats --model.", metavar="SPEC")]
Coder = Annotated[str | None, typer.Option(help="Engine of the Coder; beats --model.", metavar="SPEC")]
Verifier = Annotated[str | None, typer.Option(help="Engine of the Verifier; beats --model.", metavar="SPEC")]
BaseUrl = Annotated[str | None, typer.Option(help="OpenAI-compatible endpoint of the chat engines.", metavar="URL")]
PolicyOption = Annotated[
    str | None,
    typer.Option("--policy", help="own-kernels, libraries or any.", show_default="libraries", metavar="POLICY"),
]
MaxAttempts = Annotated[int | None, typer.Option(help="Candidates that may be evaluated.", metavar="N")]
MaxReplans = Annotated[int | None, typer.Option(help="How often the Planner may be asked again.", metavar="N")]
MaxSeconds = Annotated[float | None, typer.Option(help="Wall-clock budget of a run.", metavar="S")]
MaxTokens = Annotated[int | None, typer.Option(help="Token budget of the chat engines.", metavar="N")]
MaxCost = Annotated[
    float | None,
    typer.Option("--max-cost-usd", help="Money budget of the chat engines; needs --set prices=…", metavar="USD"),
]
SeedEmbedded = Annotated[
    bool, typer.Option("--seed-embedded", help="A chat Coder starts from the embedded engine's candidate.")
]
Samples = Annotated[
    int | None, typer.Option(help="Candidates that a chat Coder writes per attempt; the best counts.", metavar="N")
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Ask chat engines anew what was answered before.")]
ReasoningEffort = Annotated[
    str | None, typer.Option(help="Of chat engines, such as low, medium or high.", metavar="LEVEL")
]
TargetSpeedup = Annotated[float | None, typer.Option(help="Stop once this ratio to eager is reached.", metavar="X")]
Trials = Annotated[int | None, typer.Option(help="Correctness trials per candidate.", metavar="N")]
Seed = Annotated[int | None, typer.Option(help="Seed of the test inputs; unset: from the system.", metavar="N")]
SettingsFile = Annotated[
    Path | None,
    typer.Option("--settings", help="Settings in TOML; flags beat it, it beats STITCHCUDA_*.", metavar="FILE"),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any other setting, as NAME=VALUE; may be repeated.", metavar="NAME=VALUE"),
]
KernelBench = Annotated[Path | None, typer.Option(help="A KernelBench checkout.", metavar="PATH")]
HuggingFace = Annotated[bool, typer.Option("--huggingface", help="The data set ScalingIntelligence/KernelBench.")]
Level = Annotated[int | None, typer.Option(help="KernelBench level.", metavar="L")]


def flag_settings(assignments: list[str] | None, **flags: Any) -> dict[str, Any]:
    """The layer of explicit flags: those given, and the ``--set NAME=VALUE`` ones.

    Raises:
        SettingsError: an assignment without ``=``, or a setting that is given twice.
    """
    layer = {name: value for name, value in flags.items() if value is not None}
    for assignment in assignments or []:
        name, sign, value = assignment.partition("=")
        name = name.strip().replace("-", "_")
        if not sign or not name:
            raise SettingsError(f"--set {assignment!r} is not NAME=VALUE")
        if name in layer:
            raise SettingsError(f"--set {name}: the setting is given twice")
        layer[name] = value.strip()
    return layer
