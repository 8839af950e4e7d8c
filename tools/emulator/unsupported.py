"""What the ``cpu`` device cannot run, as an exception about the candidate's own line."""

from __future__ import annotations

__all__ = ["UnsupportedOnCpu"]


class UnsupportedOnCpu(Exception):
    """A CUDA feature that the ``cpu`` device does not have; it says nothing about the candidate on a GPU."""

    def __init__(self, feature: str, line: int) -> None:
        super().__init__(f"not supported by the cpu device: {feature} in line {line}")
        self.feature = feature
        self.line = line
