"""What fills the roles: ``open_engines`` gives one engine per role from the run's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stitchcuda.nodes.engines.protocols import CoderEngine, PlannerEngine, VerifierEngine

if TYPE_CHECKING:
    from stitchcuda.graph.context import Context

__all__ = ["Engines", "open_engines"]


@dataclass(frozen=True)
class Engines:
    """The three roles, filled."""

    planner: PlannerEngine
    coder: CoderEngine
    verifier: VerifierEngine


def open_engines(context: Context) -> Engines:
    """Open the engine of each role; equal chat specifications share one model.

    Raises:
        SettingsError: an engine name that is neither ``embedded`` nor a chat specification, an endpoint setting that
            does not exist, or a money budget without a price.
        ModelError: a hosted endpoint without a key.
    """
    from stitchcuda.nodes.engines.embedded import EmbeddedCoder, EmbeddedPlanner, EmbeddedVerifier

    specs = context.engines
    if set(specs.values()) == {"embedded"}:
        return Engines(planner=EmbeddedPlanner(), coder=EmbeddedCoder(), verifier=EmbeddedVerifier())

    from stitchcuda.nodes.engines.chat import ChatCoder, ChatPlanner, ChatVerifier
    from stitchcuda.nodes.engines.chat.opening import ChatOpener

    opener = ChatOpener(context)
    planner: PlannerEngine = EmbeddedPlanner()
    coder: CoderEngine = EmbeddedCoder()
    verifier: VerifierEngine = EmbeddedVerifier()
    if specs["planner"] != "embedded":
        planner = ChatPlanner(opener.model(specs["planner"]), options=opener.options("planner"))
    if specs["coder"] != "embedded":
        coder = ChatCoder(opener.model(specs["coder"]), options=opener.options("coder"))
    if specs["verifier"] != "embedded":
        verifier = ChatVerifier(opener.model(specs["verifier"]), options=opener.options("verifier"))
    return Engines(planner=planner, coder=coder, verifier=verifier)
