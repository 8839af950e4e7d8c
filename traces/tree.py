"""The runs of a trace as trees, and a plain-text drawing of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stitchcuda.traces.records import RunRecord

__all__ = ["RunNode", "render_tree", "tree"]

MESSAGE_LIMIT_CHARS = 80


@dataclass
class RunNode:
    """A run and the runs that it started, in starting order."""

    run: RunRecord
    children: list[RunNode] = field(default_factory=list)


def tree(records: Sequence[RunRecord]) -> list[RunNode]:
    """The roots of ``records``; a run whose parent is not among them is a root."""
    nodes = {record.id: RunNode(record) for record in sorted(records, key=lambda record: record.dotted_order)}
    roots: list[RunNode] = []
    for node in nodes.values():
        parent = nodes.get(node.run.parent_run_id or "")
        (parent.children if parent is not None and parent is not node else roots).append(node)
    return roots


def render_tree(records: Sequence[RunRecord], *, hidden: bool = False) -> str:
    """Draw ``records``, a line per run: name, kind, duration, tokens, failure.

    Args:
        records: The runs, from ``read_trace``.
        hidden: Also draw the framework's own plumbing; otherwise its children take its place.
    """
    lines: list[str] = []
    # An explicit stack: a trace that was made by hand may be deeper than Python's recursion limit.
    stack = [(node, "", "", "") for node in reversed(_shown(tree(records), hidden))]
    while stack:
        node, indent, branch, below = stack.pop()
        lines.append(f"{indent}{branch}{_line(node.run)}")
        children = _shown(node.children, hidden)
        last = len(children) - 1
        rows = [
            (child, indent + below, "└─ " if index == last else "├─ ", "   " if index == last else "│  ")
            for index, child in enumerate(children)
        ]
        stack.extend(reversed(rows))
    return "\n".join(lines)


def _shown(nodes: list[RunNode], hidden: bool) -> list[RunNode]:
    if hidden:
        return nodes
    shown: list[RunNode] = []
    for node in nodes:
        shown.extend(_shown(node.children, hidden) if node.run.hidden else [node])
    return shown


def _line(run: RunRecord) -> str:
    parts = [run.name, f"[{run.run_type}]"]
    parts.append(_duration(run.duration_s) if run.duration_s is not None else "unfinished")
    if run.total_tokens:
        parts.append(f"{run.prompt_tokens or 0}→{run.completion_tokens or 0} tokens")
    if isinstance(run.error, str):
        parts.append("ERROR " + " ".join(run.error.split())[:MESSAGE_LIMIT_CHARS])
    elif run.error is not None:
        parts.append("ERROR")
    return "  ".join(parts)


def _duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
