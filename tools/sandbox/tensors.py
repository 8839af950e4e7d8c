"""Nested values with tensors, as a JSON tree plus raw bytes in sealed memory files.

Runs in workers (imports torch). ``pack`` gives a tree whose tensor leaves say dtype, shape and where their bytes lie;
``unpack`` maps them back, copy-on-write on the CPU. The tree may come from a hostile process: every length, offset,
name and depth is checked, and ``ValueError`` says what is wrong. No pickle.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Sequence
from typing import Any

import torch

from stitchcuda.tools.sandbox.memory import is_sealed, new_memory_file, seal

__all__ = ["DTYPES", "Packer", "copy_to", "pack", "unpack"]

DTYPES: dict[str, torch.dtype] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128),
        *(torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool),
    )
}
_SEGMENT_BYTES = 1 << 30
_ALIGNMENT = 64
_STAGING_BYTES = 64 << 20
_MAX_DEPTH = 16
_MAX_LEAVES = 20_000


def pack(value: Any) -> tuple[dict[str, Any], list[int]]:
    """Tree and descriptors (the caller closes them) of a nested tuple/list/dict of tensors and scalars.

    Leaves of other types become ``{"t": "other", "type": …}`` and cannot be unpacked.
    """
    packer = Packer()
    try:
        tree = packer.add(value)
    except BaseException:
        packer.abandon()
        raise
    return tree, packer.finish()


def unpack(tree: Any, descriptors: Sequence[int], device: str | torch.device = "cpu") -> Any:
    """The value again; closes nothing, and keeps the memory mapped as long as a tensor needs it.

    Raises:
        ValueError: the tree does not fit the descriptors, or is no tree.
    """
    maps: list[mmap.mmap] = []
    for descriptor in descriptors:
        if not is_sealed(descriptor):
            raise ValueError("tensor bytes in something that is no sealed memory file")
        size = os.fstat(descriptor).st_size
        maps.append(
            mmap.mmap(descriptor, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
            if size
            else mmap.mmap(-1, mmap.PAGESIZE)
        )
    try:
        return _Unpacker(maps, torch.device(device)).read(tree, 0)
    except (KeyError, TypeError, IndexError, OverflowError) as error:
        raise ValueError(f"malformed tensor tree ({type(error).__name__}: {error})") from error


class Packer:
    """Writes tensors into memory files of at most 1 GiB each."""

    def __init__(self) -> None:
        self._files: list[int] = []
        self._used = _SEGMENT_BYTES
        self._leaves = 0

    def add(self, value: Any, depth: int = 0) -> dict[str, Any]:
        self._leaves += 1
        if depth > _MAX_DEPTH or self._leaves > _MAX_LEAVES:
            return {"t": "other", "type": "a value nested too deep or too large"}
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, (tuple, list)):
            kind = "tuple" if isinstance(value, tuple) else "list"
            return {"t": kind, "items": [self.add(item, depth + 1) for item in value]}
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return {"t": "dict", "items": [[key, self.add(item, depth + 1)] for key, item in value.items()]}
        if value is None or isinstance(value, (bool, str)) or type(value) is int:
            return {"t": "scalar", "v": value}
        if isinstance(value, float):
            return {"t": "float", "v": repr(float(value))}
        if isinstance(value, torch.dtype) and str(value).removeprefix("torch.") in DTYPES:
            return {"t": "dtype", "v": str(value).removeprefix("torch.")}
        return {"t": "other", "type": type(value).__name__}

    def finish(self) -> list[int]:
        for descriptor in self._files:
            seal(descriptor)
        return self._files

    def abandon(self) -> None:
        for descriptor in self._files:
            os.close(descriptor)

    def _tensor(self, tensor: torch.Tensor) -> dict[str, Any]:
        name = str(tensor.dtype).removeprefix("torch.")
        # A subclass may compute late or lie about its contents: only plain tensors count.
        plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
        if not plain or name not in DTYPES or tensor.device.type == "meta":
            return {"t": "other", "type": f"{type(tensor).__name__} ({name}, {tensor.layout}, {tensor.device})"}
        data = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
        parts = []
        start, total = 0, data.numel()
        while start < total:
            room = _SEGMENT_BYTES - self._used
            if room < min(total - start, 1 << 20):
                self._files.append(new_memory_file())
                self._used, room = 0, _SEGMENT_BYTES
            count = min(room, total - start)
            self._write(data[start : start + count])
            parts.append([len(self._files) - 1, self._used, count])
            start += count
            self._used += (count + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
        return {
            "t": "tensor",
            "dtype": name,
            "shape": list(tensor.shape),
            "device": tensor.device.type,
            "parts": parts,
        }

    def _write(self, data: torch.Tensor) -> None:
        file, offset = self._files[-1], self._used
        for start in range(0, data.numel(), _STAGING_BYTES):
            piece = data[start : start + _STAGING_BYTES]
            if piece.is_cuda:
                staging = _pinned(piece.numel())
                staging.copy_(piece)
                piece = staging
            view = memoryview(piece.numpy().data)
            while view:
                written = os.pwrite(file, view, offset)
                view, offset = view[written:], offset + written


_staging: torch.Tensor | None = None


def _pinned(count: int) -> torch.Tensor:
    """One page-locked buffer per process: pageable copies are ~30 times slower on an H200 host."""
    global _staging
    if _staging is None:
        _staging = torch.empty(_STAGING_BYTES, dtype=torch.uint8, pin_memory=True)
    return _staging[:count]


def copy_to(target: torch.Tensor, source: torch.Tensor) -> None:
    """Copy flat uint8 CPU bytes to ``target`` (flat uint8, any device), staged for CUDA."""
    if not target.is_cuda:
        target.copy_(source)
        return
    for start in range(0, source.numel(), _STAGING_BYTES):
        piece = source[start : start + _STAGING_BYTES]
        staging = _pinned(piece.numel())
        staging.copy_(piece)
        target[start : start + piece.numel()].copy_(staging)


class _Unpacker:
    def __init__(self, maps: list[mmap.mmap], device: torch.device) -> None:
        self._maps = maps
        self._device = device
        self._leaves = 0

    def read(self, tree: Any, depth: int) -> Any:
        self._leaves += 1
        if depth > _MAX_DEPTH or self._leaves > _MAX_LEAVES:
            raise ValueError("a value nested too deep or too large")
        kind = tree["t"]
        if kind == "tensor":
            return self._tensor(tree)
        if kind in ("tuple", "list"):
            items = [self.read(item, depth + 1) for item in tree["items"]]
            return tuple(items) if kind == "tuple" else items
        if kind == "dict":
            return {str(key): self.read(item, depth + 1) for key, item in tree["items"]}
        if kind == "scalar" and (tree["v"] is None or isinstance(tree["v"], (bool, int, str))):
            return tree["v"]
        if kind == "float":
            return float(tree["v"])
        if kind == "dtype":
            return DTYPES[tree["v"]]
        raise ValueError(f"a value of type {tree.get('type', kind)} cannot be passed between processes")

    def _tensor(self, tree: dict[str, Any]) -> torch.Tensor:
        dtype = DTYPES[tree["dtype"]]
        shape = [int(size) for size in tree["shape"]]
        if any(size < 0 for size in shape):
            raise ValueError("a tensor with a negative size")
        expected = math.prod(shape) * dtype.itemsize
        parts = [(int(file), int(offset), int(count)) for file, offset, count in tree["parts"]]
        if sum(count for _, _, count in parts) != expected:
            raise ValueError("a tensor whose bytes do not fit its shape")
        for file, offset, count in parts:
            fits = 0 <= file < len(self._maps) and offset >= 0 and count > 0 and offset % _ALIGNMENT == 0
            if not fits or offset + count > len(self._maps[file]):
                raise ValueError("a tensor whose bytes lie outside of its memory file")
        if not parts:
            return torch.empty(shape, dtype=dtype, device=self._device)
        pieces = [
            torch.frombuffer(self._maps[file], dtype=torch.uint8, count=count, offset=offset)
            for file, offset, count in parts
        ]
        if len(pieces) == 1 and self._device.type == "cpu":
            return pieces[0].view(dtype).reshape(shape)
        whole = torch.empty(expected, dtype=torch.uint8, device=self._device)
        start = 0
        for piece in pieces:
            copy_to(whole[start : start + piece.numel()], piece)
            start += piece.numel()
        return whole.view(dtype).reshape(shape)
