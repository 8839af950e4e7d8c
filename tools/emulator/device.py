"""Lets Python that was written for CUDA run on CPU tensors, inside a worker process that runs one candidate.

``device="cuda"`` becomes ``"cpu"`` in every torch call, ``torch.cuda`` answers as one finished device, and a candidate
that asks a tensor where it lies hears ``cuda:0``. torch's own modules and ours keep seeing the truth: who asks is
decided by the module of the calling frame.
Not covered: CUDA graphs, ``torch.cuda.FloatTensor``, ``torch.load(map_location="cuda")``, triton.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from stitchcuda.tools.emulator.device_objects import DeviceContext, DeviceProperties, Event, Stream, StreamContext

__all__ = ["CudaOnCpu", "cuda_on_cpu"]

_CUDA_NAME = re.compile(r"cuda(:\d+)?")
_TRUSTED = {"torch", "stitchcuda", "functorch", "numpy"}
_CPU = torch.device("cpu")
_CUDA = torch.device("cuda", 0)


def _names_cuda(value: object) -> bool:
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and _CUDA_NAME.fullmatch(value) is not None


def _asked_by_candidate(depth: int) -> bool:
    """Whether the frame ``depth`` levels above the caller belongs to neither torch nor this package."""
    name = str(sys._getframe(depth + 1).f_globals.get("__name__", ""))
    return name.partition(".")[0] not in _TRUSTED


class _CpuMode(TorchFunctionMode):
    """Sees every call of a torch function or tensor method, and moves what names CUDA to the CPU."""

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        del types
        if func is torch.device or func is torch.get_device_module:  # names, not places
            return func(*args, **(kwargs or {}))
        special = _SPECIAL.get(func)
        if special is not None:
            answer = special(args, _asked_by_candidate(1))
            if answer is not NotImplemented:
                return answer
        if any(_names_cuda(argument) for argument in args):
            args = tuple(_CPU if _names_cuda(argument) else argument for argument in args)
        if kwargs and _names_cuda(kwargs.get("device")):
            kwargs = kwargs | {"device": _CPU}
        return func(*args, **(kwargs or {}))


def _device_of(args: tuple[Any, ...], by_candidate: bool) -> Any:
    del args
    return _CUDA if by_candidate else NotImplemented


def _is_cuda(args: tuple[Any, ...], by_candidate: bool) -> Any:
    del args
    return True if by_candidate else NotImplemented


def _is_cpu(args: tuple[Any, ...], by_candidate: bool) -> Any:
    del args
    return False if by_candidate else NotImplemented


def _get_device(args: tuple[Any, ...], by_candidate: bool) -> Any:
    del args
    return 0 if by_candidate else NotImplemented


def _itself(args: tuple[Any, ...], by_candidate: bool) -> Any:
    del by_candidate
    return args[0]


def _to(args: tuple[Any, ...], by_candidate: bool) -> Any:
    del by_candidate
    if len(args) > 1 and isinstance(args[1], int) and not isinstance(args[1], bool):  # x.to(0): a CUDA index
        return args[0].to(_CPU, *args[2:])
    return NotImplemented


def _parse_to(args: tuple[Any, ...], by_candidate: bool) -> Any:
    del by_candidate
    if args and isinstance(args[0], int) and not isinstance(args[0], bool):  # module.to(0)
        parse: Any = torch._C._nn._parse_to
        return parse(_CPU, *args[1:])
    return NotImplemented


def _getter(name: str) -> Any:
    return getattr(torch.Tensor, name).__get__


_SPECIAL: dict[Any, Callable[[tuple[Any, ...], bool], Any]] = {
    _getter("device"): _device_of,
    _getter("is_cuda"): _is_cuda,
    _getter("is_cpu"): _is_cpu,
    torch.Tensor.get_device: _get_device,
    torch.Tensor.cuda: _itself,
    torch.Tensor.pin_memory: _itself,
    torch.Tensor.to: _to,
    torch._C._nn._parse_to: _parse_to,
}


# --- torch.cuda -------------------------------------------------------------------------------------------------------


def _always(value: Any) -> Callable[..., Any]:
    def answer(*_: Any, **__: Any) -> Any:
        return value

    return answer


def _for_candidates(real: Callable[..., Any], value: Any) -> Callable[..., Any]:
    """``value`` for a candidate, the real answer for torch's own modules and ours."""

    def answer(*args: Any, **kwargs: Any) -> Any:
        return value if _asked_by_candidate(1) else real(*args, **kwargs)

    return answer


def _cuda_attributes() -> dict[str, Any]:
    cuda = torch.cuda
    no_bytes: dict[str, Any] = dict.fromkeys(
        (
            "memory_allocated",
            "max_memory_allocated",
            "memory_reserved",
            "max_memory_reserved",
            "utilization",
        ),
        _always(0),
    )
    finished: dict[str, Any] = dict.fromkeys(
        (
            "init",
            "synchronize",
            "empty_cache",
            "ipc_collect",
            "set_device",
            "set_stream",
            "manual_seed",
            "manual_seed_all",
            "seed",
            "seed_all",
            "set_rng_state",
            "set_rng_state_all",
            "reset_peak_memory_stats",
            "reset_max_memory_allocated",
            "set_per_process_memory_fraction",
        ),
        _always(None),
    )
    return {
        **no_bytes,
        **finished,
        "is_available": _for_candidates(cuda.is_available, True),
        "device_count": _for_candidates(cuda.device_count, 1),
        "is_initialized": _for_candidates(cuda.is_initialized, True),
        "is_bf16_supported": _always(True),
        "current_device": _always(0),
        "current_stream": lambda device=None: Stream(),  # noqa: ARG005
        "default_stream": lambda device=None: Stream(),  # noqa: ARG005
        "get_device_name": _always(DeviceProperties.name),
        "get_device_capability": _always((DeviceProperties.major, DeviceProperties.minor)),
        "get_device_properties": lambda device=None: DeviceProperties(),  # noqa: ARG005
        "mem_get_info": _always((DeviceProperties.total_memory, DeviceProperties.total_memory)),
        "get_rng_state": lambda device=None: torch.get_rng_state(),  # noqa: ARG005
        "Stream": Stream,
        "Event": Event,
        "device": DeviceContext,
        "device_of": DeviceContext,
        "stream": StreamContext,
    }


def _cpu_generator() -> type:
    """``torch.Generator`` that takes ``device="cuda"``; every generator is an instance of it."""
    real = torch.Generator

    class _Meta(type):
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, real)

        def __call__(cls, device: Any = "cpu") -> Any:
            return real(_CPU if _names_cuda(device) else device)

    return _Meta("Generator", (), {})


class CudaOnCpu:
    """The installed replacements; ``close`` (or leaving a ``with``) takes them away again."""

    def __init__(self) -> None:
        self._saved: list[tuple[Any, str, Any]] = []
        for name, value in _cuda_attributes().items():
            self._replace(torch.cuda, name, value)
        for name in ("range_push", "range_pop", "mark"):
            self._replace(torch.cuda.nvtx, name, _always(None))
        self._replace(torch, "Generator", _cpu_generator())
        # Its C signature wants a real stream, and is checked before a mode is asked.
        self._replace(torch.Tensor, "record_stream", _always(None))
        self._mode = ExitStack()
        self._mode.enter_context(_CpuMode())

    def _replace(self, owner: Any, name: str, value: Any) -> None:
        self._saved.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def close(self) -> None:
        if not self._saved:
            return
        self._mode.close()
        while self._saved:
            owner, name, value = self._saved.pop()
            setattr(owner, name, value)

    def __enter__(self) -> CudaOnCpu:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def cuda_on_cpu() -> CudaOnCpu:
    """Installs the replacements in this process, for the calling thread.

    Meant to be called once, in a worker that belongs to one candidate; a ``with`` block is for tests.
    """
    return CudaOnCpu()
