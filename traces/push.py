"""Send a local trace to LangSmith, or to an OpenTelemetry collector.

Comes in: a run folder. Goes out: its runs, by LangSmith's own client. What was sent is remembered beside the trace
(``trace.pushed.json``), so that a later push sends only what is new and a broken one goes on where it stopped; sending
a run twice does no harm, it has the same id.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stitchcuda.core.errors import SettingsError, ToolchainError, one_line
from stitchcuda.core.files import write_json
from stitchcuda.core.records import Record
from stitchcuda.traces.blobs import read_blobs
from stitchcuda.traces.export import otlp_request
from stitchcuda.traces.index import TRACE_NAME, TraceIndex
from stitchcuda.traces.lines import Line, read_lines

if TYPE_CHECKING:
    from langsmith import Client

__all__ = ["PUSHED_NAME", "Pushed", "push_otlp", "push_trace"]

PUSHED_NAME = "trace.pushed.json"
BATCH_LINES = 200
BATCH_BYTES = 4_000_000
CONNECT_TIMEOUT_MS, READ_TIMEOUT_MS = 5_000, 30_000


class Pushed(Record):
    """How far a trace has been sent."""

    endpoint: str
    project: str
    bytes: int
    """Up to where in ``trace.jsonl``."""
    events: int
    """Beginnings and ends of runs that this push sent."""


def push_trace(
    run_dir: Path,
    *,
    api_key: str | None,
    endpoint: str | None = None,
    project: str | None = None,
    again: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Pushed:
    """Send what has not been sent yet; ``again`` sends everything.

    Args:
        api_key: LangSmith's key; a self-hosted endpoint may need none.
        endpoint: base URL; LangSmith's own environment variables, then its cloud, when left out.
        project: LangSmith's project; the trace's own when left out.
        progress: called with the number of events sent so far.

    Raises:
        SettingsError: no trace, or no key for the cloud.
        ToolchainError: the endpoint does not take it; what was sent before stays sent.
    """
    trace = run_dir / TRACE_NAME
    if not trace.is_file():
        raise SettingsError(f"{run_dir} holds no trace ({TRACE_NAME} is missing); give a run folder")
    failures: list[Exception] = []
    client = _client(endpoint, api_key, failures)
    url = client.api_url
    before = _already(run_dir, url, project, trace.stat().st_size)
    start = 0 if again else before
    sent, at = 0, start
    try:
        for lines in _batches(trace, start):
            posts = [_run(line, run_dir, project) for line in lines if line.fields.get("event") != "patch"]
            patches = [_run(line, run_dir, project) for line in lines if line.fields.get("event") == "patch"]
            if client.info.batch_ingest_config and client.info.batch_ingest_config.get("use_multipart_endpoint"):
                client.multipart_ingest(create=posts, update=patches)
            else:
                client.batch_ingest_runs(create=posts, update=patches)
            if failures:
                raise ToolchainError(
                    f"{url} did not take the trace of {run_dir}: {one_line(failures[0])}; "
                    "it is kept, push it again when the endpoint answers"
                )
            sent += len(lines)
            at = lines[-1].offset + lines[-1].length
            write_json(run_dir / PUSHED_NAME, {"endpoint": url, "project": project, "bytes": at})
            if progress is not None:
                progress(sent)
    finally:
        client.cleanup(timeout=0)
    return Pushed(endpoint=url, project=project or "", bytes=at, events=sent)


def _client(endpoint: str | None, api_key: str | None, failures: list[Exception]) -> Client:
    from langsmith import Client
    from langsmith.utils import LangSmithUserError
    from urllib3.util import Retry

    try:
        client = Client(
            api_url=endpoint,
            api_key=api_key,
            auto_batch_tracing=False,
            timeout_ms=(CONNECT_TIMEOUT_MS, READ_TIMEOUT_MS),
            retry_config=Retry(total=2, backoff_factor=0.2),
            tracing_error_callback=failures.append,
        )
    except LangSmithUserError as error:
        raise SettingsError(f"LangSmith cannot be used as given: {one_line(error)}") from error
    if not api_key and "smith.langchain.com" in client.api_url:
        raise SettingsError("LangSmith needs a key; set LANGSMITH_API_KEY (or LANGSMITH_ENDPOINT to your own server)")
    return client


def _already(run_dir: Path, endpoint: str, project: str | None, size: int) -> int:
    """Bytes that were sent to the same place before; 0 when the trace is another one since."""
    try:
        stored = json.loads((run_dir / PUSHED_NAME).read_bytes())
        same = stored["endpoint"] == endpoint and stored["project"] == project
        done = int(stored["bytes"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    return done if same and done <= size else 0


def _batches(trace: Path, start: int) -> Iterator[list[Line]]:
    batch: list[Line] = []
    size = 0
    for line in read_lines(trace, start):
        batch.append(line)
        size += line.length
        if len(batch) >= BATCH_LINES or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _run(line: Line, run_dir: Path, project: str | None) -> dict[str, Any]:
    """A line as the ingest endpoint wants it."""
    kept = {key: value for key, value in line.fields.items() if key != "event" and value is not None}
    fields: dict[str, Any] = read_blobs(kept, run_dir)
    if "error" in fields and not isinstance(fields["error"], str):
        fields["error"] = json.dumps(fields["error"])
    if project is not None:
        fields["session_name"] = project
    return fields


def push_otlp(run_dir: Path, endpoint: str) -> int:
    """Send the trace to an OpenTelemetry collector (OTLP over HTTP, JSON); returns the number of spans.

    Raises:
        SettingsError: no trace, or no such kind of URL.
        ToolchainError: the collector does not take it.
    """
    url = endpoint.rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise SettingsError(f"{endpoint!r} is no HTTP address; give the collector's, for example http://127.0.0.1:4318")
    url = url if url.endswith("/v1/traces") else f"{url}/v1/traces"
    with TraceIndex(run_dir) as index:
        body, count = otlp_request(index)
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=READ_TIMEOUT_MS / 1000) as answer:
            answer.read()
    except (urllib.error.URLError, OSError) as error:
        raise ToolchainError(f"{url} did not take the trace of {run_dir}: {one_line(error)}") from error
    return count
