"""What is written elsewhere about the graph agrees with the code that builds it."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel

from stitchcuda.graph.builder import build_graph
from stitchcuda.graph.drawing import drawing
from stitchcuda.graph.state import CHECKPOINT_TYPES, State

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


def test_langgraph_json_lists_what_a_checkpoint_holds() -> None:
    """A server reads checkpoints with these types; what is not listed may come back as plain data."""
    found: set[tuple[str, str]] = set()

    def reach(hint: Any) -> None:
        if isinstance(hint, type) and issubclass(hint, BaseModel | Enum):
            name = (hint.__module__, hint.__name__)
            if name not in found:
                found.add(name)
                for field in getattr(hint, "model_fields", {}).values():
                    reach(field.annotation)
        for part in get_args(hint):
            reach(part)

    for hint in get_type_hints(State).values():
        reach(hint)
    settings = json.loads((Path(__file__).parents[2] / "langgraph.json").read_text())
    listed = settings["checkpointer"]["serde"]["allowed_msgpack_modules"]
    assert {tuple(one) for one in listed} == found <= set(CHECKPOINT_TYPES)
