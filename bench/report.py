"""``report.md`` of a batch, or of two compared. Pure: records in, Markdown out."""

from __future__ import annotations

from collections.abc import Sequence

from stitchcuda.bench.compare import Comparison
from stitchcuda.bench.records import BatchFile, BatchResult, Listed
from stitchcuda.bench.scores import Scores, score
from stitchcuda.nodes.engines.protocols import Usage

__all__ = ["ratio_text", "render_comparison", "render_report", "share_text"]


def ratio_text(value: float | None) -> str:
    """``1.43x``, or a dash for nothing."""
    return "–" if value is None else f"{value:.2f}x"


def share_text(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def render_report(batch: BatchFile, pairs: Sequence[tuple[Listed, BatchResult | None]], title: str) -> str:
    """The batch as Markdown: what was run, scores, counts, a row per problem."""
    scores = score([result for _, result in pairs])
    engines = {role: batch.settings.get(role) for role in ("planner", "coder", "verifier")}
    same = len(set(engines.values())) == 1
    engine = str(engines["coder"]) if same else ", ".join(f"{role} {spec}" for role, spec in engines.items())
    lines = [
        f"# Batch {title}",
        "",
        f"- begun {batch.created}, StitchCUDA {batch.version}",
        f"- device `{batch.device}`, policy `{batch.settings.get('policy')}`, engine {_cell(engine)}",
        f"- {scores.finished} of {scores.problems} problems finished, {scores.passed} passed",
        *_usage_lines([result for _, result in pairs if result is not None]),
        "",
        "## Scores",
        "",
        *_score_lines(scores),
        "",
        "## Problems by status",
        "",
        *_table(("status", "problems"), [(status, str(count)) for status, count in scores.counts.items()]),
        "",
        "## Problems",
        "",
        *_table(
            ("problem", "status", "speed-up", "attempts", "seconds", "stopped", "what"),
            [_problem_row(problem, result) for problem, result in pairs],
        ),
        "",
    ]
    return "\n".join(lines)


def render_comparison(comparison: Comparison, name_a: str, name_b: str) -> str:
    """Two batches side by side as Markdown, over the problems that they share."""
    a, b = comparison.scores_a, comparison.scores_b
    rows = [
        ("problems shared", str(a.problems), str(b.problems)),
        ("passed", str(a.passed), str(b.passed)),
        *[(f"fast_{p}", share_text(a.fast_p[p]), share_text(b.fast_p[p])) for p in a.fast_p],
        ("geometric mean, passed", ratio_text(a.geomean_passed), ratio_text(b.geomean_passed)),
        ("geometric mean, failures as 1.0x", ratio_text(a.geomean_all), ratio_text(b.geomean_all)),
    ]
    lines = [
        f"# {name_b} against {name_a}",
        "",
        f"- A is `{name_a}`, B is `{name_b}`",
        f"- {comparison.gained} gained, {comparison.lost} lost; where both passed, B is "
        f"{ratio_text(comparison.geomean_ratio)} as fast as A (geometric mean)",
    ]
    for text, slugs in (
        ("only in A", comparison.only_a),
        ("only in B", comparison.only_b),
        ("left out, their source differs", comparison.changed),
    ):
        if slugs:
            lines.append(f"- {text}: {', '.join(slugs)}")
    problem_rows = [
        (
            problem.slug,
            problem.status_a,
            problem.status_b,
            ratio_text(problem.speedup_a),
            ratio_text(problem.speedup_b),
            ratio_text(problem.ratio),
            problem.change,
        )
        for problem in comparison.problems
    ]
    header = ("problem", "A", "B", "A speed-up", "B speed-up", "B / A", "change")
    return "\n".join(
        [*lines, "", *_table(("", "A", "B"), rows), "", "## Problems", "", *_table(header, problem_rows), ""]
    )


def _usage_lines(results: Sequence[BatchResult]) -> list[str]:
    """The chat models' share, if there is one."""
    usage = sum((Usage(**one.usage, cost_usd=one.cost_usd, cached=one.cached) for one in results), Usage())
    return [f"- chat models: {usage.told()}"] if usage.calls or usage.cached else []


def _score_lines(scores: Scores) -> list[str]:
    rows = [
        *[(f"fast_{p}", share_text(value)) for p, value in scores.fast_p.items()],
        ("geometric mean of speed-ups, passed problems", ratio_text(scores.geomean_passed)),
        ("median speed-up, passed problems", ratio_text(scores.median_passed)),
        ("geometric mean, failures as 1.0x", ratio_text(scores.geomean_all)),
    ]
    lines = _table(("score", "value"), rows)
    if scores.passed and not scores.timed:
        return [*lines, "", "Nothing was timed: only a GPU is timed, so there is no speed-up to score."]
    lines += [
        "",
        f"fast_p is the share of all {scores.problems} problems that passed and are more than p times as fast as "
        f"PyTorch eager. The last line is over the {scores.timed + scores.failed} problems "
        "that were timed or failed.",
    ]
    return lines


def _problem_row(problem: Listed, result: BatchResult | None) -> tuple[str, ...]:
    if result is None:
        return (problem.slug, "owed", "–", "", "", "", "")
    what = " ".join((*result.reasons, result.message)).strip()
    return (
        problem.slug,
        result.status,
        ratio_text(result.speedup),
        str(result.attempts),
        f"{result.seconds:.1f}",
        result.stop_reason,
        what,
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return lines + ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]


def _cell(text: str) -> str:
    """Text that cannot end its cell, its row, or become a link or HTML."""
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())
