"""What matters of one run, in a line: a status, a ratio, a decision, a failure, the first words of an answer.

Comes in: a run's kind, name, inputs and outputs as they lie in the trace. Goes out: text of at most 160
characters, empty when nothing is known about the shape of the outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stitchcuda.traces.messages import answer_of

__all__ = ["cost_of", "error_line", "shorten", "value_of"]

LIMIT_CHARS = 160


def shorten(text: str, limit: int = LIMIT_CHARS) -> str:
    """``text`` on one line, cut at ``limit`` characters."""
    flat = " ".join(text[: 4 * limit].split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def error_line(error: Any) -> str:
    """The first words of an error; LangChain stores ``repr(error)`` and the stack trace below it."""
    if error is None:
        return ""
    return shorten(str(error).split("\n", 1)[0]) if isinstance(error, str) else "an error (long; see the run)"


def cost_of(outputs: Any) -> float | None:
    """Dollars that a step's chat calls cost; ``None`` where its outputs hold no usage, or one without a price."""
    if not isinstance(outputs, dict):
        return None
    inner = outputs.get("output", outputs)  # LangChain wraps what a tool returns
    usage = inner.get("usage") if isinstance(inner, dict) else None
    cost = usage.get("cost_usd") if isinstance(usage, dict) else None
    return float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) and cost > 0 else None


def value_of(run_type: str, outputs: Any) -> str:
    """The important value of a finished run."""
    if not isinstance(outputs, dict):
        return ""
    if run_type == "llm":
        return shorten(answer_of(outputs))
    documents = outputs.get("documents")
    if run_type == "retriever" and isinstance(documents, list):
        return _documents(documents)
    for key, describe in _BY_KEY.items():
        found = outputs.get(key)
        if isinstance(found, dict):
            return shorten(describe(found))
    if run_type == "tool":
        inner = outputs.get("output", outputs)  # LangChain wraps what a tool returns
        if isinstance(inner, dict):
            return shorten(_report(inner))
    plain = outputs.get("output")
    if isinstance(plain, str | int | float):
        return shorten(str(plain))
    failure = outputs.get("engine_failure")
    return shorten(f"no answer: {failure}") if failure and isinstance(failure, str) else ""


def _count(number: int, noun: str) -> str:
    plural = noun if number == 1 else f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number} {plural}"


def _documents(documents: list[Any]) -> str:
    first = documents[0] if documents else {}
    fields = first.get("kwargs", first) if isinstance(first, dict) else {}
    metadata = fields.get("metadata") or {}
    source = metadata.get("citation") or metadata.get("source") or ""
    return shorten(_count(len(documents), "passage") + (f", first {source}" if source else ""))


def _report(report: Mapping[str, Any]) -> str:
    """A stage's report, told from the fields that it has."""
    if "baselines" in report:
        return _timing(report)
    if "extensions" in report:
        return _build(report)
    if "trials" in report:
        return _check(report)
    if "findings" in report:
        return _screen(report)
    if "rows" in report:
        return _profile(report)
    for key, describe in _BY_KEY.items():
        if isinstance(report.get(key), dict):
            return describe(report[key])
    if "summary" in report:
        return str(report["summary"])
    if "failure" in report:
        return f"failed: {report['failure']}"
    return ", ".join(f"{key} {value}" for key, value in report.items() if isinstance(value, str | int | float))


def _evaluation(found: Mapping[str, Any]) -> str:
    timing = found.get("timing")
    ratio = _ratio(timing) if isinstance(timing, dict) else ""
    why = "" if found.get("status") == "passed" else str(found.get("message", ""))
    return " ".join(part for part in (str(found.get("status", "")), ratio, why) if part)


def _ratio(timing: Mapping[str, Any]) -> str:
    baselines = timing.get("baselines") or [{}]
    speedup = baselines[0].get("speedup") if isinstance(baselines[0], dict) else None
    return f"{speedup:.2f}x" if isinstance(speedup, int | float) else ""


def _timing(found: Mapping[str, Any]) -> str:
    if "baselines" not in found:
        return _check(found)  # a timing that gave the candidate away
    candidate = found.get("candidate") or {}
    median = candidate.get("median_ms")
    took = f"{median:.4g} ms" if isinstance(median, int | float) else ""
    return f"{_ratio(found)} {took}".strip()


def _build(found: Mapping[str, Any]) -> str:
    extensions = [one for one in found.get("extensions") or [] if isinstance(one, dict)]
    took = f"{found.get('seconds') or 0.0:.1f} s"
    if found.get("ok"):
        cached = sum(bool(one.get("cached")) for one in extensions)
        note = f", {cached} from the store" if cached else ""
        return f"built {_count(len(extensions), 'extension')}{note}, {took}"
    for one in extensions:
        for diagnostic in one.get("diagnostics") or []:
            if diagnostic.get("severity") == "error":
                return f"failed: line {diagnostic.get('line')}: {diagnostic.get('message')}"
    return f"failed: {found.get('error') or 'no message'}"


def _check(found: Mapping[str, Any]) -> str:
    if found.get("ok"):
        launches = found.get("own_kernel_launches")
        own = f", {_count(launches, 'own kernel launch')}" if launches is not None else ""
        return f"{found.get('status')} in {found.get('trials')} trials{own}"
    return f"{found.get('status')} {' '.join(found.get('reasons') or [])}: {found.get('message', '')}"


def _screen(found: Mapping[str, Any]) -> str:
    findings = [one for one in found.get("findings") or [] if isinstance(one, dict)]
    worst = next((one for one in findings if one.get("severity") == "block"), None)
    if worst is not None:
        return f"blocked: {worst.get('rule')}: {worst.get('message')}"
    return _count(len(findings), "finding") if findings else "nothing found"


def _profile(found: Mapping[str, Any]) -> str:
    rows = found.get("rows") or []
    top = rows[0] if rows and isinstance(rows[0], dict) else None
    total = found.get("total_ms")
    took = f"{total:.4g} ms" if isinstance(total, int | float) else ""
    return took + (f", {100 * float(top.get('share', 0)):.0f} % in {top.get('name')}" if top else "")


def _plan(found: Mapping[str, Any]) -> str:
    return str(found.get("summary") or _count(len(found.get("subtasks") or []), "sub-task"))


def _candidate(found: Mapping[str, Any]) -> str:
    return f"candidate {found.get('id')}: {found.get('summary', '')}"


def _decision(found: Mapping[str, Any]) -> str:
    subtask = found.get("subtask_id")
    return f"{found.get('kind')} ({found.get('reason')})" + (f" → {subtask}" if subtask else "")


def _feedback(found: Mapping[str, Any]) -> str:
    return f"{found.get('kind')}: {found.get('instruction') or ' '.join(found.get('evidence') or [])}"


# The first key that the outputs have decides; a verdict says more than the advice beside it.
_BY_KEY: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "evaluation": _evaluation,
    "timing": _timing,
    "candidate_profile": _profile,
    "check": _check,
    "screen": _screen,
    "build": _build,
    "candidate": _candidate,
    "plan": _plan,
    "decision": _decision,
    "feedback": _feedback,
    "profile": _profile,
}
