"""Run trees in LangSmith's schema: write them as they happen, read them back, draw them.

::

    tracer = JsonlTracer(run_dir, secrets={"…"})
    await graph.ainvoke(state, config={"callbacks": [tracer]})
    print(render_tree(read_trace(run_dir / "trace.jsonl")))

Reading needs no LangChain; the two names that do (``JsonlTracer``, ``span``) are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stitchcuda.traces.blobs import read_blobs
from stitchcuda.traces.records import RunRecord, Tokens, read_trace
from stitchcuda.traces.redact import Redactor
from stitchcuda.traces.tree import RunNode, render_tree, tree

if TYPE_CHECKING:
    from stitchcuda.traces.spans import Span, span
    from stitchcuda.traces.tracer import JsonlTracer

__all__ = [
    "JsonlTracer",
    "Redactor",
    "RunNode",
    "RunRecord",
    "Span",
    "Tokens",
    "read_blobs",
    "read_trace",
    "render_tree",
    "span",
    "tree",
]


def __getattr__(name: str) -> Any:
    if name == "JsonlTracer":
        from stitchcuda.traces.tracer import JsonlTracer

        return JsonlTracer
    if name in ("Span", "span"):
        from stitchcuda.traces import spans

        return getattr(spans, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
