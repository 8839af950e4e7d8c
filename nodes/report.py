"""The last step: ``report.md`` and ``result.json`` for people and programs, and the workers closed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from langgraph.runtime import Runtime

from stitchcuda.core.files import write_json, write_text
from stitchcuda.core.records import Evaluation, Plan
from stitchcuda.graph.context import Context
from stitchcuda.graph.state import Best, State
from stitchcuda.nodes.engines.protocols import Usage
from stitchcuda.nodes.evidence import Attempt
from stitchcuda.nodes.progress import say
from stitchcuda.nodes.run_folder import RunFolder
from stitchcuda.nodes.workbench import close_workbench, workbench

__all__ = ["STOP_REASONS", "render_report", "report"]

STOP_REASONS = {
    "attempts_spent": "the budget of attempts is spent",
    "seconds_spent": "the budget of seconds is spent",
    "tokens_spent": "the budget of tokens is spent",
    "cost_spent": "the budget of money is spent",
    "no_plan": "the Planner gave no usable plan",
    "nothing_to_do": "the Planner found nothing that own kernels could do",
    "subtask_given_up": "the last open sub-task was given up after repeated failures",
    "optimising_failed": "the attempts to make the whole program faster kept failing",
    "complete": "every sub-task is implemented; this device yields no timing to optimise",
    "target_reached": "the target speed-up is reached and no sub-task is left",
    "nothing_left": "the Verifier sees nothing left to gain",
    "stagnated": "several candidates in a row brought no gain",
    "plan_review": "the plan waits for you: edit plans/NN.json in the run folder if you like, then resume",
    "machine_error": "the machine failed, not the candidate; resume when it is mended",
}


async def report(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
    """Write the report of the run and close its workers."""
    bench = await workbench(state, runtime)
    path = await asyncio.to_thread(_write, bench.folder.path, state)
    say("report", f"report in {path}")
    await asyncio.to_thread(close_workbench, state["run_dir"])
    return {"report_path": str(path)}


def _write(folder: Path, state: State) -> Path:
    best, decision = state.get("best"), state.get("decision")
    evaluation = best.evaluation if best else state.get("evaluation")
    usage = state.get("usage", Usage()).model_dump()
    RunFolder(folder).write_usage(usage)
    write_json(
        folder / "result.json",
        {
            "problem": state["problem_name"],
            "device": state["device"].model_dump(mode="json"),
            "status": evaluation.status.value if evaluation else "no_candidate",
            "reasons": list(evaluation.reasons) if evaluation else [],
            "speedup": evaluation.speedup if evaluation else None,
            "candidate": "best.py" if best else None,
            "stop_reason": decision.reason if decision else "",
            "attempts": len(state.get("attempts", [])),
            "usage": usage,
            "seconds": round(state.get("seconds_spent", 0.0), 3),
        },
    )
    return write_text(folder / "report.md", render_report(state))


def render_report(state: State) -> str:
    """The run as Markdown: verdict, plan, attempts, what the best one covers, cost."""
    best, decision, device = state.get("best"), state.get("decision"), state["device"]
    lines = [f"# {state['problem_name']}", "", _verdict(best, state.get("evaluation")), ""]
    if decision is not None:
        lines += [f"Stopped because {STOP_REASONS.get(decision.reason, decision.reason)}.", ""]
    lines += [
        f"- device: `{device.device}` {device.name} {device.compute_capability}".rstrip(),
        f"- inputs ({state['sizes']} sizes): {', '.join(state.get('input_summary', ()))}",
    ]
    if best is not None:
        lines += _best_lines(best)
    usage = state.get("usage", Usage())
    lines.append(f"- time: {state.get('seconds_spent', 0.0):.1f} s")
    if usage.calls or usage.cached:
        lines += _usage_lines(usage)
    lines += ["", *_plan_lines(state.get("plan"), state.get("skipped", []))]
    lines += ["## Attempts", "", *_attempt_lines(state.get("attempts", []))]
    lines += _documentation_lines(state)
    return "\n".join(lines) + "\n"


def _documentation_lines(state: State) -> list[str]:
    """What the plan was made with, each with where to read on, and what the last diagnosis cites."""
    links = {hit.source: hit.link for hit in state.get("citations", ())}
    feedback = state.get("feedback")
    for source in feedback.citations if feedback is not None else ():
        links.setdefault(source, "")
    if not links:
        return []
    shown = (f"- {source}" + (f" <{link}>" if link else "") for source, link in links.items())
    return ["", "## Documentation used", "", *shown]


def _verdict(best: Best | None, last: Evaluation | None) -> str:
    if best is not None and best.evaluation.speedup is not None:
        return f"**passed**, {best.evaluation.speedup:.2f}x over eager: `best.py` (candidate {best.candidate.id:02d})"
    if best is not None:
        return f"**passed** (no GPU, so no speed-up is claimed): `best.py` (candidate {best.candidate.id:02d})"
    if last is not None:
        return f"**not solved**; the last candidate ended `{last.status.value}`: {last.message}"
    return "**not solved**; there was no candidate to evaluate"


def _best_lines(best: Best) -> list[str]:
    lines = []
    timing, check, build = best.evaluation.timing, best.evaluation.check, best.evaluation.build
    if timing is not None:
        lines += [
            f"- {base.name}: {base.stats.median_ms:.4g} ms, candidate {timing.candidate.median_ms:.4g} ms, "
            f"{base.speedup:.2f}x (95 % interval {base.speedup_low:.2f} to {base.speedup_high:.2f})"
            for base in timing.baselines
        ]
    if check is not None and check.own_kernel_launches is not None:
        lines.append(f"- own kernel launches per call: {check.own_kernel_launches}")
    if build is not None and build.cross_compiled:
        targets = sorted({extension.target for extension in build.cross_compiled})
        lines.append(f"- also compiled for {', '.join(targets)} (not run)")
    return lines


def _usage_lines(usage: Usage) -> list[str]:
    """What the chat models cost, together and by role."""
    lines = [f"- chat models: {usage.told()}", *(f"  - {role}: {part.told()}" for role, part in usage.roles.items())]
    if usage.unreported:
        lines.append(f"  - {usage.unreported} calls came without token figures; theirs are estimated")
    return lines


def _plan_lines(plan: Plan | None, skipped: list[str]) -> list[str]:
    if plan is None:
        return ["## Plan", "", "No plan.", ""]
    lines = [f"## Plan (revision {plan.revision})", "", plan.summary, ""]
    for task in plan.subtasks:
        given_up = " — **given up**" if task.id in skipped else ""
        lines += [f"1. **{task.title}** (`{task.id}`){given_up}: {task.technique}", f"   - contract: {task.contract}"]
        if task.expected_gain:
            lines.append(f"   - expected: {task.expected_gain}")
        lines += [f"   - see {citation}" for citation in task.citations]
    if plan.left_to_pytorch:
        lines += ["", "Left to PyTorch:", "", *(f"- {item}" for item in plan.left_to_pytorch)]
    return [*lines, ""]


def _attempt_lines(attempts: list[Attempt]) -> list[str]:
    if not attempts:
        return ["None."]
    rows = ["| candidate | status | speed-up | what |", "|---|---|---|---|"]
    for attempt in attempts:
        status = " ".join((str(attempt.status), *attempt.reasons))
        speedup = f"{attempt.speedup:.2f}x" if attempt.speedup is not None else "–"
        summary = " ".join(attempt.summary.split()).replace("|", "\\|")
        rows.append(f"| {attempt.candidate_id:02d} | {status} | {speedup} | {summary} |")
    return rows
