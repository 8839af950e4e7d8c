"""Make a step inside a node visible as a run of its own: a build, a check, a retrieval.

::

    async with span("build", {"candidate": 3}) as step:
        report = await asyncio.to_thread(evaluator.build, source)
        step.outputs = {"ok": report.ok}

The parent is the runnable that is running, and what the block calls becomes the step's child; without callbacks the
step is simply not recorded. What a step is given or finds must be JSON-able or pydantic records.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.documents import Document
from langchain_core.runnables.config import (
    RunnableConfig,
    ensure_config,
    get_async_callback_manager_for_config,
    patch_config,
    var_child_runnable_config,
)

__all__ = ["Span", "span"]


@dataclass
class Span:
    """What the step found; set ``outputs`` before the block ends."""

    outputs: dict[str, Any] = field(default_factory=dict)


@asynccontextmanager
async def span(
    name: str,
    inputs: Mapping[str, Any],
    *,
    run_type: Literal["tool", "retriever"] = "tool",
    config: RunnableConfig | None = None,
) -> AsyncIterator[Span]:
    """Record the block as a run named ``name``.

    Args:
        name: For example ``build`` or ``retrieve``.
        inputs: What the step is given. A retriever's query is ``inputs["query"]``.
        run_type: ``tool``, or ``retriever``, whose ``outputs["documents"]`` are dicts with ``text`` and metadata.
        config: The node's config; taken from the running context when left out.

    Yields:
        A ``Span`` whose ``outputs`` are recorded at the end. An exception is recorded and raised on.
    """
    config = ensure_config(config)
    manager = get_async_callback_manager_for_config(config)
    step = Span()
    if run_type == "retriever":
        retriever = await manager.on_retriever_start({"name": name}, str(inputs.get("query", "")), name=name)
        try:
            with _parent(config, retriever.get_child()):
                yield step
        except BaseException as error:
            await retriever.on_retriever_error(error)
            raise
        await retriever.on_retriever_end([_document(item) for item in step.outputs.get("documents", ())])
        return
    tool = await manager.on_tool_start({"name": name}, "", name=name, inputs=dict(inputs))
    try:
        with _parent(config, tool.get_child()):
            yield step
    except BaseException as error:
        await tool.on_tool_error(error)
        raise
    await tool.on_tool_end(step.outputs)


@contextmanager
def _parent(config: RunnableConfig, manager: Any) -> Iterator[None]:
    """Make the step the parent of what the block calls without a config of its own."""
    token = var_child_runnable_config.set(patch_config(config, callbacks=manager))
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


def _document(item: Any) -> Document:
    if isinstance(item, Document):
        return item
    fields = dict(item)
    return Document(page_content=str(fields.pop("text", "")), metadata=fields)
