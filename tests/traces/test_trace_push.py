"""Sending traces: to a server that speaks LangSmith's ingest endpoint, to a collector, and with nobody listening."""

from __future__ import annotations

import json
import logging
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from played_session import SECRET, SOURCES, play

from stitchcuda.core.errors import SettingsError, ToolchainError
from stitchcuda.traces import read_trace
from stitchcuda.traces.live import live_tracing
from stitchcuda.traces.push import push_otlp, push_trace


class Ingest:
    """Answers ``/info`` with multipart off, and keeps what comes in."""

    def __init__(self) -> None:
        self.runs: dict[str, dict[str, Any]] = {}
        self.keys: set[str | None] = set()
        self.spans: list[dict[str, Any]] = []
        self.batches = 0
        self.fail_after: int | None = None
        ingest = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                limits = {"use_multipart_endpoint": False, "size_limit": 50, "size_limit_bytes": 1_000_000}
                threads = {"scale_up_qsize_trigger": 100, "scale_up_nthreads_limit": 2, "scale_down_nempty_trigger": 4}
                self._answer(200, {"version": "0", "batch_ingest_config": limits | threads})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path.endswith("/v1/traces"):
                    for resource in body["resourceSpans"]:
                        ingest.spans += [span for scope in resource["scopeSpans"] for span in scope["spans"]]
                    self._answer(200, {})
                    return
                ingest.batches += 1
                if ingest.fail_after is not None and ingest.batches > ingest.fail_after:
                    self._answer(422, {"detail": "no"})
                    return
                ingest.keys.add(self.headers.get("x-api-key"))
                for run in [*body.get("post", []), *body.get("patch", [])]:
                    ingest.runs.setdefault(run["id"], {}).update(run)
                self._answer(202, {})

            def _answer(self, status: int, value: Any) -> None:
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def ingest(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ingest]:
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    found = Ingest()
    thread = threading.Thread(target=found.server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


@pytest.fixture
def run_dir(played: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(played, tmp_path / "run"))


def test_every_run_arrives_whole_and_once(ingest: Ingest, run_dir: Path) -> None:
    pushed = push_trace(run_dir, api_key="lsv2_x", endpoint=ingest.url, project="mine")
    records = {record.id: record for record in read_trace(run_dir / "trace.jsonl")}
    assert ingest.runs.keys() == records.keys()
    assert pushed.events == 2 * len(records)
    assert ingest.keys == {"lsv2_x"}
    for id, run in ingest.runs.items():
        assert (run["name"], run["run_type"], run["session_name"]) == (records[id].name, records[id].run_type, "mine")
        assert run["dotted_order"] == records[id].dotted_order
        assert run.get("parent_run_id") == records[id].parent_run_id
        assert run["end_time"] > run["start_time"]
    # Values that the local trace keeps by reference are sent in full.
    coder = next(run for run in ingest.runs.values() if run["name"] == "engine.coder")
    assert coder["outputs"]["output"]["source"] in SOURCES
    assert SECRET not in json.dumps(list(ingest.runs.values()))

    batches = ingest.batches
    assert push_trace(run_dir, api_key="lsv2_x", endpoint=ingest.url, project="mine").events == 0
    assert ingest.batches == batches
    assert push_trace(run_dir, api_key="lsv2_x", endpoint=ingest.url, project="other").events == pushed.events


def test_what_is_new_is_sent_later(ingest: Ingest, run_dir: Path) -> None:
    trace = run_dir / "trace.jsonl"
    whole = trace.read_bytes()
    trace.write_bytes(whole[: len(whole) // 2])
    push_trace(run_dir, api_key="k", endpoint=ingest.url)
    some = len(ingest.runs)
    trace.write_bytes(whole)
    push_trace(run_dir, api_key="k", endpoint=ingest.url)
    assert 0 < some < len(ingest.runs) == len(read_trace(trace))
    assert all("end_time" in run for run in ingest.runs.values())


def test_a_refusal_loses_nothing(ingest: Ingest, run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stitchcuda.traces.push.BATCH_LINES", 5)
    ingest.fail_after = 2
    with pytest.raises(ToolchainError, match=r"did not take the trace .* push it again"):
        push_trace(run_dir, api_key="k", endpoint=ingest.url)
    ingest.fail_after = None
    again = push_trace(run_dir, api_key="k", endpoint=ingest.url)
    records = read_trace(run_dir / "trace.jsonl")
    assert again.events == 2 * len(records) - 10
    assert len(ingest.runs) == len(records)


def test_nobody_listens(run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    with pytest.raises(ToolchainError, match="did not take the trace"):
        push_trace(run_dir, api_key="k", endpoint="http://127.0.0.1:9")
    with pytest.raises(SettingsError, match="needs a key"):
        push_trace(run_dir, api_key=None, endpoint="https://api.smith.langchain.com")
    with pytest.raises(SettingsError, match="holds no trace"):
        push_trace(tmp_path, api_key="k", endpoint="http://127.0.0.1:9")


def test_spans_for_a_collector(ingest: Ingest, run_dir: Path) -> None:
    count = push_otlp(run_dir, ingest.url)
    spans = {span["spanId"]: span for span in ingest.spans}
    assert len(spans) == count
    roots = [span for span in spans.values() if "parentSpanId" not in span]
    assert [span["name"] for span in roots] == ["solve"]
    assert all(span["parentSpanId"] in spans for span in spans.values() if span not in roots)
    assert all(len(span["traceId"]) == 32 and len(span["spanId"]) == 16 for span in spans.values())
    assert all(int(span["endTimeUnixNano"]) >= int(span["startTimeUnixNano"]) for span in spans.values())
    model = next(span for span in spans.values() if span["name"] == "GenericFakeChatModel")
    assert {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "11"}} in model["attributes"]
    with pytest.raises(ToolchainError, match="did not take the trace"):
        push_otlp(run_dir, "http://127.0.0.1:9")


async def test_live_runs_are_the_local_ones(
    ingest: Ingest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    monkeypatch.setenv("LANGSMITH_API_KEY", "lsv2_live")
    monkeypatch.setenv("LANGSMITH_ENDPOINT", ingest.url)
    _forget_environment()
    async with live_tracing({SECRET}) as handlers:
        assert len(handlers) == 1
        await play(tmp_path, handlers)
    local = {record.id: record for record in read_trace(tmp_path / "trace.jsonl")}
    assert ingest.runs.keys() == local.keys()
    assert all(run.get("end_time") for run in ingest.runs.values())
    assert SECRET not in json.dumps(list(ingest.runs.values()))
    assert not caplog.records


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("answers", [False, True])
async def test_live_without_a_network_does_not_block(
    answers: bool, silent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = "http://127.0.0.1:9" if answers else silent
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    monkeypatch.setenv("LANGSMITH_API_KEY", "lsv2_live")
    monkeypatch.setenv("LANGSMITH_ENDPOINT", endpoint)
    monkeypatch.setattr("stitchcuda.traces.live.FLUSH_S", 1.0)
    _forget_environment()
    started = time.monotonic()
    with caplog.at_level(logging.WARNING):
        async with live_tracing(hint="; push it later") as handlers:
            await play(tmp_path, handlers)
            played_s = time.monotonic() - started
    assert time.monotonic() - started - played_s < 8
    assert read_trace(tmp_path / "trace.jsonl")[0].status == "success"
    (warning,) = [record.getMessage() for record in caplog.records if record.name.startswith("stitchcuda")]
    assert "did not get the whole run" in warning
    assert warning.endswith("; push it later")


async def test_live_without_a_key_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("LANGSMITH_API_KEY", "LANGCHAIN_API_KEY", "LANGSMITH_ENDPOINT", "LANGCHAIN_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))  # no profile of a logged-in user
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    _forget_environment()
    started = time.monotonic()
    with caplog.at_level(logging.WARNING):
        async with live_tracing(hint="; push it later") as handlers:
            assert handlers == []
            await play(tmp_path, handlers)
    assert time.monotonic() - started < 5
    assert read_trace(tmp_path / "trace.jsonl")[0].status == "success"
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning == (
        "LANGSMITH_TRACING is on, but LANGSMITH_API_KEY is not set: the run is traced locally; push it later"
    )


async def test_live_is_off_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    _forget_environment()
    async with live_tracing() as handlers:
        assert handlers == []


def _forget_environment() -> None:
    """LangSmith's library reads a variable once and remembers it."""
    from langsmith import utils

    utils.get_env_var.cache_clear()
