"""Scores, selection and comparison: numbers that one can check by hand."""

from __future__ import annotations

import math

import pytest

from stitchcuda.bench import BatchResult, Listed, compare, score
from stitchcuda.bench.scores import fast_p, geometric_mean
from stitchcuda.bench.selection import parse_ids, parse_slice, select
from stitchcuda.core.errors import ProblemError, SettingsError


def result(status: str = "passed", speedup: float | None = None, slug: str = "p", sha256: str = "x") -> BatchResult:
    return BatchResult(slug=slug, sha256=sha256, status=status, speedup=speedup)


def test_fast_p_is_strict_and_over_all_problems():
    results = [result(speedup=1.0), result(speedup=1.5), result(speedup=2.0), result("wrong_values"), None]
    assert fast_p(results, 0.0) == 3 / 5
    assert fast_p(results, 0.8) == 3 / 5
    assert fast_p(results, 1.0) == 2 / 5
    assert fast_p(results, 1.5) == 1 / 5
    assert fast_p(results, 2.0) == 0.0


def test_a_slow_pass_counts_for_fast_0_only():
    results = [result(speedup=0.4), result("machine_error")]
    assert [fast_p(results, p) for p in (0.0, 0.5, 1.0)] == [0.5, 0.0, 0.0]


def test_a_ratio_of_a_failed_candidate_never_counts():
    assert fast_p([result("wrong_values", 9.0)], 1.0) == 0.0
    assert score([result("cheating", 9.0)]).geomean_passed is None


def test_geometric_means():
    results = [result(speedup=2.0), result(speedup=0.5), result(speedup=8.0), result("timeout"), result("no_candidate")]
    scores = score([*results, result("machine_error"), result("problem_error"), result("unscorable"), None])
    assert scores.geomean_passed == pytest.approx(2.0)  # cube root of 8
    assert scores.geomean_all == pytest.approx(8 ** (1 / 5))  # two failures as 1.0x
    assert scores.median_passed == 2.0
    assert (scores.problems, scores.finished, scores.scorable, scores.passed) == (9, 8, 5, 3)
    assert scores.counts["passed"] == 3
    assert scores.counts["owed"] == 1
    assert geometric_mean([]) is None
    assert geometric_mean([1e-200, 1e200, 1e300]) == pytest.approx(1e100)  # no product that overflows


def test_untimed_passes_have_no_ratio_to_score():
    scores = score([result(), result(), result("wrong_values")])
    assert (scores.geomean_passed, scores.geomean_all, scores.timed) == (None, None, 0)
    assert scores.fast_p["0.0"] == 2 / 3
    assert scores.fast_p["1.0"] is None


def test_nothing_passed_is_a_score_of_one():
    scores = score([result("wrong_values"), result("build_failed")])
    assert (scores.geomean_all, scores.fast_p["1.0"]) == (1.0, 0.0)
    assert score([]).fast_p["0.0"] is None


def listed(slug: str, sha256: str = "x") -> Listed:
    return Listed(slug=slug, name=slug, sha256=sha256, origin="")


def test_compare_only_what_is_shared():
    a = [
        (listed("both"), result(speedup=1.0)),
        (listed("lost"), result(speedup=3.0)),
        (listed("gained"), result("wrong_values")),
        (listed("other source", "1"), result(speedup=5.0)),
        (listed("a only"), result(speedup=9.0)),
    ]
    b = [
        (listed("both"), result(speedup=2.0)),
        (listed("lost"), None),
        (listed("gained"), result(speedup=4.0)),
        (listed("other source", "2"), result(speedup=6.0)),
        (listed("b only"), None),
    ]
    comparison = compare(a, b)
    assert [(one.slug, one.change) for one in comparison.problems] == [
        ("both", "same"),
        ("lost", "lost"),
        ("gained", "gained"),
    ]
    assert math.isclose(comparison.geomean_ratio or 0, 2.0)
    assert (comparison.gained, comparison.lost) == (1, 1)
    assert (comparison.only_a, comparison.only_b, comparison.changed) == (("a only",), ("b only",), ("other source",))
    assert comparison.scores_a.problems == 3


@pytest.mark.parametrize(
    ("text", "ids"), [("1", [1]), ("1,3,5-7", [1, 3, 5, 6, 7]), (" 9 , 2-2 ,9", [9, 2]), ("10-12", [10, 11, 12])]
)
def test_ids(text, ids):
    assert parse_ids(text) == ids


@pytest.mark.parametrize("text", ["", "a", "1,,2", "5-3", "1-", "-4", "1.5"])
def test_wrong_ids(text):
    with pytest.raises(SettingsError):
        parse_ids(text)


@pytest.mark.parametrize(
    ("text", "chosen"), [("1:3", [1, 2]), (":2", [0, 1]), ("3:", [3, 4]), ("::2", [0, 2, 4]), ("-2:", [3, 4])]
)
def test_slices(text, chosen):
    assert list(range(5))[parse_slice(text)] == chosen


@pytest.mark.parametrize("text", ["", "3", "a:b", "::0", "1:2:3:4"])
def test_wrong_slices(text):
    with pytest.raises(SettingsError):
        parse_slice(text)


def test_select_from_folders_and_files(problem_file, tmp_path):
    text = problem_file.read_text()
    for folder, names in {"a": ["1_relu.py", "2_softmax.py", "10_gelu.py", "_helper.py"], "b": ["1_relu.py"]}.items():
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / name).write_text(text)
    (tmp_path / "a" / "3_broken.py").write_text("class Model(:\n")

    def slugs(*sources: str, **options: object) -> list[str]:
        return [one.listed.slug for one in select([tmp_path / source for source in sources], **options)]  # type: ignore[arg-type]

    assert slugs("a") == ["1_relu", "2_softmax", "3_broken", "10_gelu"]
    assert slugs("a", "b") == ["1_relu", "2_softmax", "3_broken", "10_gelu", "1_relu--2"]
    assert slugs("b/1_relu.py") == ["1_relu"]
    assert slugs("a", pattern="elu") == ["1_relu", "10_gelu"]
    assert slugs("a", pattern="1*") == ["1_relu", "10_gelu"]
    assert slugs("a", pattern="?_s*") == ["2_softmax"]
    (tmp_path / "b" / "07_seven.py").write_text(text)
    assert slugs("b", pattern="07_*") == ["7_seven"]
    assert slugs("a", slice_text="1:3") == ["2_softmax", "3_broken"]
    assert slugs("a", slice_text="1:", limit=1) == ["2_softmax"]
    broken = select([tmp_path / "a"], pattern="broken")[0]
    assert broken.problem is None
    assert "3_broken.py" in broken.error
    with pytest.raises(ProblemError):
        slugs("a", pattern="nothing")


def test_select_from_a_kernelbench_checkout(problem_file, tmp_path):
    for level, names in {1: ["1_a.py", "2_b.py", "3_c.py"], 2: ["1_d.py"]}.items():
        folder = tmp_path / "kb" / "KernelBench" / f"level{level}"
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).write_text(problem_file.read_text())

    def slugs(**options: object) -> list[str]:
        return [one.listed.slug for one in select([], kernelbench=tmp_path / "kb", **options)]  # type: ignore[arg-type]

    assert slugs(levels=[1], ids="1,3") == ["1_1_a", "1_3_c"]
    assert slugs(levels=[1, 2]) == ["1_1_a", "1_2_b", "1_3_c", "2_1_d"]
    with pytest.raises(ProblemError):
        slugs(levels=[1], ids="1-9")
    with pytest.raises(SettingsError):
        slugs()
