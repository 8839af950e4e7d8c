"""Whose fault is it? What a GPU's state says about a candidate that failed on it."""

from __future__ import annotations

from stitchcuda.core.errors import StitchError
from stitchcuda.tools.sandbox import IsolatedError, run_isolated
from stitchcuda.tools.timing.nvml import used_and_total_bytes

__all__ = ["crowded", "free_bytes", "gpu_trouble"]

_PROBE_TIMEOUT_S = 60.0
_CONTEXT_BYTES = 1 << 30
_HELD = 6
"""A candidate holds its inputs, a pristine copy, a poisoned block and its outputs, with some room for its own."""


def gpu_trouble(device: str) -> str:
    """Why ``device`` does not work any more, asked in a process of its own; empty when it does, or is no GPU.

    To be called after a candidate was killed on it or broke its context: the driver ends what it ran, but a GPU can
    also be left hanging, and then it is the machine that fails the next one.
    """
    if not device.startswith("cuda"):
        return ""
    try:
        run_isolated("stitchcuda.tools.timing.probe:probe", {"device": device}, _PROBE_TIMEOUT_S)
    except IsolatedError as error:
        return f"{device} does not answer after the candidate: {error.message}"
    except StitchError as error:
        return f"{device} could not be asked: {error}"
    return ""


def free_bytes(device: str) -> int | None:
    """Memory of the device that nobody uses, by the driver."""
    memory = used_and_total_bytes(device)
    return None if memory is None else memory[1] - memory[0]


def crowded(free_before: int | None, input_bytes: int) -> bool:
    """Whether the GPU was too full before the candidate started for any candidate of this problem."""
    return free_before is not None and free_before < _HELD * input_bytes + _CONTEXT_BYTES
