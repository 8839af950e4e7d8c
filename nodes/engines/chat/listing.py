"""Ask an endpoint's model list for the context window, once: some servers tell it there, none of them must."""

from __future__ import annotations

import asyncio
from typing import Any

from langchain_core.language_models import BaseChatModel

from stitchcuda.nodes.engines.chat.faults import classify
from stitchcuda.nodes.engines.chat.limits import CallLimits
from stitchcuda.nodes.engines.chat.profile import Endpoint, window_in_listing
from stitchcuda.nodes.engines.deadline import seconds_left

__all__ = ["find_window"]

LISTING_TIMEOUT_S = 5.0


async def find_window(model: BaseChatModel, endpoint: Endpoint, limits: CallLimits) -> None:
    """Enter the window that the model list tells into the endpoint's profile; at most one request per process."""
    if endpoint.probed or endpoint.key is None or limits.context_tokens or endpoint.profile.context_tokens:
        return
    left = seconds_left()
    if left is not None and left <= 0:
        return
    endpoint.probed = True
    client: Any = getattr(model, "root_async_client", None)
    if client is None:
        return
    try:
        async with asyncio.timeout(
            min(LISTING_TIMEOUT_S, limits.timeout_s, left if left is not None else LISTING_TIMEOUT_S)
        ):
            response = await client.models.with_raw_response.list()
            listing = response.http_response.json()
    except Exception as error:
        if isinstance(error, ValueError) or classify(error, model) is not None:
            return  # no list, no window: the first refusal will tell
        raise
    window = window_in_listing(listing, endpoint.key[1])
    if window is not None:
        await asyncio.to_thread(endpoint.learn, endpoint.profile.model_copy(update={"context_tokens": window}))
