"""A batch's folder: ``batch.json``, append-only ``results.jsonl``, one run folder per problem.

A torn last line, as a kill leaves it, only means that its problem is owed again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from stitchcuda.bench.records import FORMAT_VERSION, BatchFile, BatchResult, Listed
from stitchcuda.core.errors import SettingsError
from stitchcuda.core.files import append_jsonl, hold_folder, read_jsonl, write_json

__all__ = ["BatchFolder"]

LOCK = ".lock"


class BatchFolder:
    """Reads and writes the files of one batch."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def exists(self) -> bool:
        return (self.path / "batch.json").exists()

    def run_dir(self, problem: Listed | BatchResult) -> Path:
        return self.path / problem.slug

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the folder while a batch runs in it.

        Raises:
            SettingsError: another process holds it, or it cannot be written.
        """
        busy = f"another process works on the batch {self.path}; wait, or name another"
        with hold_folder(self.path, what="batch folder", busy=busy, lock_name=LOCK):
            yield

    @property
    def is_empty(self) -> bool:
        return not self.path.exists() or all(entry.name == LOCK for entry in self.path.iterdir())

    def write(self, batch: BatchFile) -> None:
        write_json(self.path / "batch.json", batch.model_dump(mode="json"))

    def read(self) -> BatchFile:
        """The batch's description.

        Raises:
            SettingsError: there is no batch here, or one that this version cannot read.
        """
        path = self.path / "batch.json"
        try:
            batch = BatchFile.model_validate_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise SettingsError(f"{self.path} holds no batch (batch.json is missing)") from None
        except (OSError, ValidationError, UnicodeDecodeError) as error:
            raise SettingsError(f"{path} cannot be read: {error}") from error
        if batch.format_version != FORMAT_VERSION:
            raise SettingsError(f"{path} has format {batch.format_version}, this version reads {FORMAT_VERSION}")
        return batch

    def append(self, result: BatchResult) -> None:
        append_jsonl(self.path / "results.jsonl", result.model_dump(mode="json"))

    def results(self) -> dict[str, BatchResult]:
        """The last result of each problem, by slug; lines that are torn or no result are passed over."""
        found: dict[str, BatchResult] = {}
        for line in read_jsonl(self.path / "results.jsonl"):
            try:
                result = BatchResult.model_validate(line)
            except ValidationError:
                continue
            found[result.slug] = result
        return found

    def current(self, batch: BatchFile) -> list[tuple[Listed, BatchResult | None]]:
        """Every problem with its result; a result of another source text does not count."""
        results = self.results()
        pairs: list[tuple[Listed, BatchResult | None]] = []
        for problem in batch.problems:
            result = results.get(problem.slug)
            pairs.append((problem, result if result is not None and result.sha256 == problem.sha256 else None))
        return pairs
