"""Files are whole or absent, also when the writer dies in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stitchcuda.core.files import append_jsonl, read_jsonl, sha256_text, write_json, write_text


def test_write_replaces_and_makes_folders(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a" / "b.txt", "one\n")
    write_text(path, "zwei: ä\n")
    assert path.read_bytes() == "zwei: ä\n".encode()
    assert [p.name for p in path.parent.iterdir()] == ["b.txt"]
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = write_json(tmp_path / "a.json", {"x": 1})
    with pytest.raises(TypeError):
        write_json(path, {"x": object()})
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "\ud800")
    assert json.loads(path.read_text()) == {"x": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_a_killed_writer_never_shows_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "big.json"
    code = (
        "import sys\nfrom pathlib import Path\nfrom stitchcuda.core.files import write_json\n"
        "n = 0\nwhile True:\n    n += 1\n    write_json(Path(sys.argv[1]), {'n': n, 'fill': 'x' * 300_000, 'end': n})\n"
    )
    for delay_s in (0.15, 0.2, 0.25, 0.3):
        process = subprocess.Popen([sys.executable, "-c", code, str(path)])
        while not path.exists():
            time.sleep(0.01)
        time.sleep(delay_s)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        value = json.loads(path.read_text())
        assert value["n"] == value["end"]


def test_jsonl_survives_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    append_jsonl(path, {"n": 1})
    append_jsonl(path, {"n": 2})
    whole = path.read_bytes()
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        append_jsonl(path, {"n": 3})
        numbers = [line["n"] for line in read_jsonl(path)]
        assert numbers[-1] == 3
        assert numbers[:-1] == [1, 2][: whole[:cut].count(b"\n") + (1 if cut in (7, 15) else 0)], cut


def test_no_file_is_no_lines(tmp_path: Path) -> None:
    assert list(read_jsonl(tmp_path / "none.jsonl")) == []


def test_digest_is_of_utf8() -> None:
    assert sha256_text("ä") == "33e6d73fee82904c8d7afb78de1154d1e8dc2a0edb08120e63df5b9385c2d9cc"
