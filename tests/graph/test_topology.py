"""The drawing in the README is the graph that the code builds."""

from __future__ import annotations

from pathlib import Path

from stitchcuda.graph.builder import build_graph
from stitchcuda.graph.drawing import drawing

README = Path(__file__).parents[2] / "README.md"


def test_the_readme_draws_this_graph() -> None:
    text = README.read_text(encoding="utf-8")
    begin, end = text.index("<!-- graph:begin -->"), text.index("<!-- graph:end -->")
    block = text[begin:end].removeprefix("<!-- graph:begin -->").strip()
    assert block == drawing().strip(), "run: python -m stitchcuda.graph.drawing README.md"


def test_every_step_has_its_edge() -> None:
    """Each way out of the route is an edge of its own, with its name on it."""
    edges = {(edge.source, edge.data, edge.target) for edge in build_graph().compile().get_graph().edges}
    for step, target in {
        "repair": "coder",
        "optimise": "coder",
        "next_subtask": "coder",
        "replan": "planner",
        "stop": "report",
    }.items():
        assert any(source == "route" and to == target for source, _, to in edges), step
    assert ("verifier", None, "route") in edges
    assert any((source, to) == ("planner", "route") for source, _, to in edges)
    assert any((source, to) == ("coder", "route") for source, _, to in edges)
