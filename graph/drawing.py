"""The graph as a Mermaid block, drawn from the code: ``python -m stitchcuda.graph.drawing README.md`` puts it there."""

from __future__ import annotations

import sys
from pathlib import Path

from stitchcuda.core.files import write_text
from stitchcuda.graph.builder import build_graph
from stitchcuda.graph.routing import STEPS

__all__ = ["drawing"]

BEGIN, END = "<!-- graph:begin -->", "<!-- graph:end -->"


def drawing() -> str:
    """A fenced Mermaid flowchart with the verifier's stages unfolded and the route's steps on their edges."""
    graph = build_graph().compile().get_graph(xray=True)
    lines = ["```mermaid", "flowchart TD"]
    stages = [node for node in graph.nodes if node.startswith("verifier:")]
    lines += [f"    {_id(node)}([{_label(node)}])" for node in graph.nodes if node not in stages]
    lines += ["    subgraph verifier", *(f"        {_id(node)}([{_label(node)}])" for node in stages), "    end"]
    for edge in graph.edges:
        if edge.source == "route":
            continue
        arrow = "-.->" if edge.conditional else "-->"
        lines.append(f"    {_id(edge.source)} {arrow} {_id(edge.target)}")
    lines += [f"    route -. {step.replace('_', ' ')} .-> {target}" for step, target in STEPS.items()]
    return "\n".join([*lines, "```"]) + "\n"


def _id(node: str) -> str:
    return {"__start__": "start_", "__end__": "end_"}.get(node, node.replace("verifier:", "verifier_"))


def _label(node: str) -> str:
    return {"__start__": "START", "__end__": "END"}.get(node, node.removeprefix("verifier:").replace("_", " "))


def main(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN, 1)
    write_text(path, f"{before}{BEGIN}\n{drawing()}{END}{rest.split(END, 1)[1]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
