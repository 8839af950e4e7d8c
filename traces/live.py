"""LangSmith during a run, when ``LANGSMITH_TRACING=true``: by its own client, and never in the run's way.

Runs are queued and sent by the client's threads. At the end of the run the queue gets a bounded time; what
could not be sent is in the local trace, and ``stitchcuda trace push`` sends it later.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import warnings
from collections.abc import AsyncIterator, Iterable
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler

from stitchcuda.traces.redact import REDACTED, Redactor

__all__ = ["live_tracing"]

logger = logging.getLogger(__name__)

FLUSH_S = 5.0
CONNECT_TIMEOUT_MS, READ_TIMEOUT_MS = 2_000, 5_000


@contextlib.asynccontextmanager
async def live_tracing(secrets: Iterable[str] = (), *, hint: str = "") -> AsyncIterator[list[BaseCallbackHandler]]:
    """The handlers that send a run to LangSmith: one with tracing switched on and a key, else none.

    Args:
        secrets: strings that must not leave the machine.
        hint: what the warning says about sending it later.
    """
    from langsmith.utils import tracing_is_enabled

    if not tracing_is_enabled():
        yield []
        return
    from langchain_core.tracers.langchain import LangChainTracer
    from langsmith import Client, tracing_context
    from langsmith.utils import LangSmithMissingAPIKeyWarning
    from urllib3.util import Retry

    failures: list[Exception] = []
    redactor = Redactor(secrets)

    def anonymise(values: dict[str, Any]) -> dict[str, Any]:
        cleaned: dict[str, Any] = _clean(values, redactor)
        return cleaned

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", LangSmithMissingAPIKeyWarning)
            client = Client(
                timeout_ms=(CONNECT_TIMEOUT_MS, READ_TIMEOUT_MS),
                retry_config=Retry(total=0),
                anonymizer=anonymise,
                tracing_error_callback=failures.append,
            )
    except LangSmithMissingAPIKeyWarning:
        logger.warning("LANGSMITH_TRACING is on, but LANGSMITH_API_KEY is not set: the run is traced locally%s", hint)
        with tracing_context(enabled=False):  # else LangChain brings a client of its own, which fails at every step
            yield []
        return
    # The client's own words come once per batch; ours once per run.
    client_logger = logging.getLogger("langsmith.client")
    level = client_logger.level
    client_logger.setLevel(logging.ERROR)
    try:
        yield [LangChainTracer(client=client)]
    finally:
        waiting = await asyncio.to_thread(_finish, client)
        client_logger.setLevel(level)
        if failures or waiting:
            why = f"{failures[0]}".split("\n", 1)[0][:200] if failures else "the endpoint does not answer"
            logger.warning("LangSmith did not get the whole run (%s)%s", why, hint)


def _finish(client: Any) -> int:
    """Give the queue its time, then drop it: the client would keep the process alive for it. Returns what was left."""
    client.flush(timeout=FLUSH_S)
    left: int = client.tracing_queue.unfinished_tasks if client.tracing_queue is not None else 0
    client.cleanup(timeout=0)
    queue = client.tracing_queue
    while queue is not None and not queue.empty():
        queue.get_nowait()
        queue.task_done()
    return left


def _clean(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, str):
        return redactor.text(value)
    if isinstance(value, dict):
        return {
            key: REDACTED if isinstance(item, str) and redactor.sensitive_key(str(key)) else _clean(item, redactor)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_clean(item, redactor) for item in value]
    return value
