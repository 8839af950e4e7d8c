"""One run's folder: where everything large lies, readable after a kill at any moment.

``run.json`` (resolved settings, machine, versions), ``problem.json``, ``reference.py``, ``facts.json``,
``plans/NN.json``, ``candidates/NN.py``, ``evaluations/NN.json``, ``profiles/``, ``best.py``, ``best.json``,
``report.md``, ``result.json``, ``trace.jsonl``, ``checkpoints.sqlite``. Every file is written beside its
place and renamed. Writing the same step twice (a resumed run) gives the same files.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stitchcuda.core.errors import SettingsError
from stitchcuda.core.files import sha256_text, write_json, write_text
from stitchcuda.core.records import Author, Candidate, CandidateSource, Evaluation, Plan
from stitchcuda.problems import Problem

__all__ = ["FORMAT_VERSION", "RunFolder", "new_run_dir"]

FORMAT_VERSION = 1


def new_run_dir(runs_dir: Path, slug: str) -> Path:
    """A folder name under ``runs_dir`` that does not exist yet: slug, UTC time, and a counter if needed."""
    stem = f"{slug}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    path, count = runs_dir / stem, 1
    while path.exists():
        count += 1
        path = runs_dir / f"{stem}-{count}"
    return path


class RunFolder:
    """Reads and writes the files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    # settings and problem

    def write_settings(self, settings: dict[str, Any], machine: dict[str, Any]) -> None:
        write_json(
            self.path / "run.json",
            {
                "format_version": FORMAT_VERSION,
                "created": datetime.now(UTC).isoformat(timespec="seconds"),
                "settings": settings,
                "machine": machine,
            },
        )

    def note_settings(self, settings: dict[str, Any]) -> None:
        """A resumed run goes on under these settings; those that it had until now are kept in ``earlier_settings``."""
        path = self.path / "run.json"
        if not path.exists() or self.read_settings() == settings:
            return
        stored = json.loads(path.read_text(encoding="utf-8"))
        earlier = [*stored.get("earlier_settings", []), stored["settings"]]
        write_json(path, stored | {"settings": settings, "earlier_settings": earlier})

    def write_usage(self, usage: dict[str, Any]) -> None:
        """Enter what the chat models cost beside the settings."""
        path = self.path / "run.json"
        write_json(path, {**json.loads(path.read_text(encoding="utf-8")), "usage": usage})

    def read_settings(self) -> dict[str, Any]:
        """The resolved settings of the run.

        Raises:
            SettingsError: no run lies here, or one of a newer format.
        """
        path = self.path / "run.json"
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise SettingsError(f"{self.path} holds no run (run.json is missing); give a run folder") from None
        except (OSError, ValueError) as error:
            raise SettingsError(f"{path} cannot be read: {error}") from error
        if stored.get("format_version") != FORMAT_VERSION:
            raise SettingsError(
                f"{path} has format {stored.get('format_version')!r}, this version reads {FORMAT_VERSION}; start anew"
            )
        settings: dict[str, Any] = stored["settings"]
        return settings

    def write_problem(self, problem: Problem, reduced: str | None) -> None:
        write_text(self.path / "reference.py", problem.source)
        if reduced is not None:
            write_text(self.path / "reference_reduced.py", reduced)
        write_json(self.path / "problem.json", problem.model_dump(mode="json"))

    def read_problem(self) -> Problem:
        path = self.path / "problem.json"
        try:
            return Problem.model_validate_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise SettingsError(f"{path} cannot be read: {error}; start the run anew") from error

    def reference(self, sizes: str) -> str:
        name = "reference_reduced.py" if sizes == "reduced" else "reference.py"
        return (self.path / name).read_text(encoding="utf-8")

    # steps

    def write_plan(self, plan: Plan) -> Path:
        return write_json(self.path / "plans" / f"{plan.revision:02d}.json", plan.model_dump(mode="json"))

    def read_plan(self, revision: int) -> dict[str, Any]:
        """A plan's file as data, perhaps edited by a person; the reader of it validates.

        Raises:
            SettingsError: the file is gone or no JSON object.
        """
        path = self.path / "plans" / f"{revision:02d}.json"
        try:
            plan = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise SettingsError(f"{path} cannot be read: {error}") from error
        if not isinstance(plan, dict):
            raise SettingsError(f"{path} holds no plan")
        return plan

    def write_candidate(self, id: int, parent_id: int | None, author: Author, answer: CandidateSource) -> Candidate:
        path = write_text(self.path / "candidates" / f"{id:02d}.py", answer.source)
        return Candidate(
            id=id,
            parent_id=parent_id,
            author=author,
            path=path.relative_to(self.path).as_posix(),
            sha256=sha256_text(answer.source),
            summary=answer.summary,
            covers=answer.covers,
            choices=answer.choices,
            own_ops=answer.own_ops,
        )

    def read_candidate(self, candidate: Candidate) -> CandidateSource:
        return CandidateSource(
            source=(self.path / candidate.path).read_text(encoding="utf-8"),
            summary=candidate.summary,
            covers=candidate.covers,
            choices=candidate.choices,
            own_ops=candidate.own_ops,
        )

    def write_evaluation(self, evaluation: Evaluation) -> None:
        write_json(
            self.path / "evaluations" / f"{evaluation.candidate_id:02d}.json", evaluation.model_dump(mode="json")
        )

    def write_best(self, candidate: Candidate, evaluation: Evaluation) -> None:
        """``best.py`` last: whoever sees it finds a record that is at least as new."""
        source = self.read_candidate(candidate).source
        record = {"candidate": candidate.model_dump(mode="json"), "evaluation": evaluation.model_dump(mode="json")}
        write_json(self.path / "best.json", record)
        write_text(self.path / "best.py", source)
