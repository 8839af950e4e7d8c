"""Workers that only pretend to compute: a clock that the calls move on, and times as a test wants them."""

from __future__ import annotations

import random
from typing import Any


class FakeGpu:
    """Milliseconds per side, the noise around them, and one clock for all."""

    def __init__(self, noise: float = 0.001, **per_call_ms: float) -> None:
        self.per_call_ms = per_call_ms
        self.noise = noise
        self.now_s = 100.0
        self.random = random.Random(5)
        self.orders: list[tuple[str, list[list[Any]]]] = []
        self.used_bytes = 10 << 30

    def clock(self) -> float:
        return self.now_s

    def call_ms(self, side: str) -> float:
        ms = self.per_call_ms[side] * (1 + self.random.uniform(-self.noise, self.noise))
        self.now_s += ms / 1e3
        return ms


class FakeReference:
    """Answers as the reference worker does; ``wrong`` makes every timed output wrong."""

    def __init__(self, gpu: FakeGpu, *, wrong: bool = False, floor: tuple[int, float | None] = (0, None)) -> None:
        self.gpu = gpu
        self.wrong = wrong
        self.floor = floor
        self.asked: list[str] = []
        self.info = {"input_bytes": 1 << 20}

    def ask(self, op: str, _: object = (), **fields: Any) -> tuple[dict[str, Any], list[int]]:
        self.asked.append(op)
        if op == "time_setup":
            return {"inputs": {}}, []
        if op == "time_round":
            side = fields["side"]
            if side not in self.gpu.per_call_ms:
                return {"uncompiled": f"cannot compile for {side}"}, []
            self.gpu.orders.append((side, fields["order"]))
            return {"ms": [self.gpu.call_ms(side) for _ in fields["order"]]}, []
        if op == "compare":
            values = {"total": 4, "mismatched": 4 * self.wrong, "nonfinite_mismatched": 0, "max_abs": float(self.wrong)}
            values |= {"max_rel": float(self.wrong), "golden_rms": 1.0, "own_error": 0.0}
            return {"leaves": [{"path": "out", "kind": "values", **values}]}, []
        if op == "time_floor":
            return {"bytes": self.floor[0], "bytes_per_s": self.floor[1]}, []
        assert op in ("time_golden", "time_batch", "time_end"), op
        return {}, []


class FakeCandidate:
    """``wall_factor``: how much longer a call takes by the parent's clock than by the events."""

    def __init__(self, gpu: FakeGpu, *, wall_factor: float = 1.0, reports: list[Any] | None = None) -> None:
        self.gpu = gpu
        self.wall_factor = wall_factor
        self.reports = reports

    def ask(self, op: str, _: object = (), **fields: Any) -> tuple[dict[str, Any], list[int]]:
        if op == "time_round":
            self.gpu.orders.append(("candidate", fields["order"]))
            if self.reports is not None:
                return {"ms": self.reports}, []
            return {"ms": [self.gpu.call_ms("candidate") for _ in fields["order"]]}, []
        if op == "time_batch":
            self.gpu.now_s += fields["calls"] * self.gpu.per_call_ms["candidate"] * self.wall_factor / 1e3
        if op == "time_last":
            return {"outputs": {"t": "tensor"}}, []
        return {}, []
