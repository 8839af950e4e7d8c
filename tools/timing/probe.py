"""Does the GPU still work? Asked in a worker of its own after a candidate was killed or broke its context."""

from __future__ import annotations

__all__ = ["probe"]


def probe(device: str) -> dict[str, float]:
    """A small computation on ``device``; raises what CUDA raises. Memory bandwidth comes along, in bytes per second."""
    import torch

    numbers = torch.arange(1 << 16, device=device, dtype=torch.float32)
    total = float(numbers.sum())
    torch.cuda.synchronize(device)
    if total != (1 << 15) * ((1 << 16) - 1.0):
        raise RuntimeError(f"the GPU computes wrong sums: {total}")
    free, size = torch.cuda.mem_get_info(device)
    return {"free_bytes": float(free), "total_bytes": float(size)}
