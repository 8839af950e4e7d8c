"""What the vocabulary makes impossible to say."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from stitchcuda.core.environment import Environment
from stitchcuda.core.errors import ModelError, ProblemError, SettingsError, StitchError, boundary, one_line
from stitchcuda.core.records import BaselineTiming, Evaluation, Status, TimingReport, TimingStats

STATS = TimingStats(median_ms=2.0, p25_ms=1.9, p75_ms=2.1, calls=10)
TIMING = TimingReport(
    candidate=STATS,
    baselines=(
        BaselineTiming(name="eager", stats=STATS, speedup=1.5, speedup_low=1.4, speedup_high=1.6),
        BaselineTiming(name="eager_tf32", stats=STATS, speedup=1.1, speedup_low=1.0, speedup_high=1.2),
    ),
    rounds=5,
)


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PASSED])
def test_only_what_passed_has_a_speedup(status: Status) -> None:
    with pytest.raises(ValidationError, match="only with 'passed'"):
        Evaluation(candidate_id=1, status=status, device="cuda:0", timing=TIMING)
    assert Evaluation(candidate_id=1, status=status, device="cuda:0").speedup is None


def test_the_speedup_is_over_the_first_baseline() -> None:
    assert Evaluation(candidate_id=1, status=Status.PASSED, device="cuda:0", timing=TIMING).speedup == 1.5


def test_a_pass_has_no_reasons() -> None:
    with pytest.raises(ValidationError, match="no reasons"):
        Evaluation(candidate_id=1, status=Status.PASSED, device="cpu", reasons=("mismatch",))


def test_a_renamed_field_is_an_error() -> None:
    with pytest.raises(ValidationError):
        Evaluation.model_validate({"candidate_id": 1, "status": "passed", "device": "cpu", "speed_up": 3})


def test_records_are_frozen() -> None:
    evaluation = Evaluation(candidate_id=1, status=Status.PASSED, device="cpu")
    with pytest.raises(ValidationError):
        evaluation.status = Status.CHEATING  # type: ignore[misc]


def test_boundary_turns_only_what_is_expected() -> None:
    with pytest.raises(ProblemError, match=r"reading x: no such thing"), boundary(ProblemError, "reading x", OSError):
        raise OSError("no such\n thing")
    with pytest.raises(SettingsError), boundary(ProblemError, "reading x", OSError, RuntimeError):
        raise SettingsError("kept")
    with pytest.raises(KeyError), boundary(ProblemError, "reading x", OSError):
        raise KeyError("a bug keeps its traceback")


def test_exit_codes() -> None:
    assert (SettingsError("").exit_code, ProblemError("").exit_code, ModelError("").exit_code) == (2, 2, 3)
    assert issubclass(StitchError, RuntimeError)


def test_one_line() -> None:
    assert one_line(ValueError("a\n\n b")) == "a b"
    assert one_line(ValueError()) == "ValueError"
    assert len(one_line(ValueError("x" * 1000))) == 400


def test_environment_never_shows_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("OPENAI_API_KEY=sk-planted\nSTITCHCUDA_CACHE_DIR=/from/file\n")
    monkeypatch.delenv("STITCHCUDA_CACHE_DIR")
    environment = Environment()
    assert environment.secrets() == {"OPENAI_API_KEY": True, "LANGSMITH_API_KEY": False}
    assert "sk-planted" not in repr(environment) + str(environment)
    assert environment.cache_dir == Path("/from/file")
    monkeypatch.setenv("STITCHCUDA_CACHE_DIR", "/from/environment")
    assert Environment().cache_dir == Path("/from/environment")
