"""The embedded engines: rules and ``codegen`` in each role, no model and no key. The default.

They are deterministic: the same evidence gives the same plan, candidate and feedback.
"""

from __future__ import annotations

from stitchcuda.nodes.engines.embedded.coder import EmbeddedCoder
from stitchcuda.nodes.engines.embedded.planner import EmbeddedPlanner
from stitchcuda.nodes.engines.embedded.verifier import EmbeddedVerifier

__all__ = ["EmbeddedCoder", "EmbeddedPlanner", "EmbeddedVerifier"]
