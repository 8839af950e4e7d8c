"""Strange values, keys and references."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stitchcuda.traces import Redactor, read_blobs, read_trace
from stitchcuda.traces.blobs import BlobStore
from stitchcuda.traces.encode import Encoder


@pytest.fixture
def encoder(tmp_path: Path) -> Encoder:
    return Encoder(Redactor({'quo"ted-secret'}), BlobStore(tmp_path))


@pytest.mark.parametrize(
    ("key", "sensitive"),
    [
        ("api_key", True),
        ("OPENAI_API_KEY", True),
        ("openaiApiKey", True),
        ("X-Api-Key", True),
        ("Authorization", True),
        ("hf_token", True),
        ("password", True),
        ("input_tokens", False),
        ("max_tokens", False),
        ("token_usage", False),
        ("key", False),
        ("monkey", False),
        ("tokenizer", False),
    ],
)
def test_keys(key: str, sensitive: bool) -> None:
    assert Redactor.sensitive_key(key) is sensitive


def test_secrets_in_strings(encoder: Encoder) -> None:
    text = json.dumps({"a": 'quo"ted-secret', "url": "http://me:pw12@host/", "k": "sk-" + "a" * 20})
    written = json.dumps(
        encoder.encode({"body": text, "header": "Bearer abcdefghij", "api_key": {"id": ["X"], "n": 1}})
    )
    for secret in ("quo", "ted-secret", "pw12", "aaaa", "abcdefghij", '"X"'):
        assert secret not in written
    assert "host" in written


def test_strange_values_become_json(encoder: Encoder, tmp_path: Path) -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    cycle: dict[str, Any] = {"n": 1}
    cycle["self"] = [cycle]
    value = {
        "nan": float("nan"),
        "set": {3, 1, 2},
        "bytes": b"\x00\xff",
        "odd": Odd(),
        "cycle": cycle,
        "path": Path("/x"),
        "surrogate": "a\udc80b",
        "large": "\udc80" * 5000,
        (1, 2): None,
    }
    encoded = encoder.encode(value)
    text = json.dumps(encoded, ensure_ascii=False, allow_nan=False)
    assert json.loads(text.encode("utf-8", "backslashreplace"))["surrogate"] == "a\udc80b"
    assert encoded["nan"] == "nan"
    assert encoded["set"] == [1, 2, 3]
    assert encoded["cycle"]["self"] == ["<dict>"]
    assert "Odd" in encoded["odd"]
    assert (tmp_path / encoded["large"]["ref"]).exists()


def test_a_reference_does_not_lead_outside(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("private")
    run_dir = tmp_path / "run"
    (run_dir / "blobs").mkdir(parents=True)
    reference = {"ref": "blobs/../../secret.txt", "bytes": 7}
    assert read_blobs({"x": [reference]}, run_dir) == {"x": [reference]}


def test_foreign_lines_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text('{"id": "1", "trace_id": "1"}\n[1]\n"x"\n\n{"id": 3}\n')
    assert read_trace(path) == []
    assert read_trace(tmp_path / "absent.jsonl") == []
