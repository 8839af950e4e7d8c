"""The candidate worker: executes the candidate, calls it on what the parent sends, hands back raw bytes.

Everything in this process may have been changed by the candidate, this module included; so nothing that leaves it is
believed without a check elsewhere. It never gets the reference's source, golden outputs, the inputs' seed or
tolerances.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from stitchcuda.tools.checks.inputs import map_tensors, tensors_of
from stitchcuda.tools.checks.op_kinds import HOST_READ
from stitchcuda.tools.checks.op_log import HostReads, log_operators
from stitchcuda.tools.checks.own_kernels import LaunchCounter
from stitchcuda.tools.checks.program import describe_error, execute
from stitchcuda.tools.checks.watch import Integrity, late_change, numerics, threads_alive
from stitchcuda.tools.checks.weights import describe_state, floating_buffers
from stitchcuda.tools.emulator.schedules import SCHEDULES, use_schedule
from stitchcuda.tools.profiling.torch_profile import profile_call
from stitchcuda.tools.sandbox.loop import serve
from stitchcuda.tools.sandbox.tensors import pack, unpack
from stitchcuda.tools.sandbox.wire import Channel, close_all
from stitchcuda.tools.timing.calls import TimedCalls

__all__ = ["main"]

Answer = tuple[dict[str, Any], Sequence[int]]


def main(channel: Channel, folder: Path) -> None:
    worker = _CandidateWorker(channel, folder)
    operations = {
        "import": worker.import_source,
        "construct": worker.construct,
        "state": worker.state,
        "call": worker.call,
        "soak": worker.soak,
        "profile": worker.profile,
        "time_setup": worker.time_setup,
        "time_round": worker.time_round,
        "time_batch": worker.time_batch,
        "time_last": worker.time_last,
    }
    serve(channel, {name: _caught(operation) for name, operation in operations.items()})


def _caught(operation: Any) -> Any:
    def run(header: dict[str, Any], descriptors: list[int]) -> Answer:
        try:
            result: Answer = operation(header, descriptors)
            return result
        except EOFError:
            raise
        except BaseException as error:  # noqa: BLE001  # whatever a candidate raises is data for the parent
            told = describe_error(error, "candidate.py")
            memory = isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "allocate memory" in str(
                told["message"]
            )
            return {"error": told | {"out_of_memory": memory}}, []

    return run


class _CandidateWorker:
    def __init__(self, channel: Channel, folder: Path) -> None:
        self._channel = channel
        self._folder = folder
        self._timed: TimedCalls | None = None
        self._held: Any = None
        self._calls = 0
        self._slot: Any = None

    def import_source(self, header: dict[str, Any], _: list[int]) -> Answer:
        """Execute the file; the extensions that it asks for are built by the parent meanwhile."""
        self._device = torch.device(header["device"])
        self._launches = LaunchCounter(self._device)
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)
        else:
            from stitchcuda.tools.emulator.device import cuda_on_cpu

            self._emulated = cuda_on_cpu()
        from stitchcuda.tools.build.capture import capture_load_inline

        capture_load_inline(self._request_build)
        self._host_reads = HostReads()
        self._numerics = numerics()
        self._integrity = Integrity()
        self._module = execute(header["source"], self._folder, "candidate")
        return {"has_modelnew": hasattr(self._module, "ModelNew"), **self._tampering()}, []

    def _tampering(self) -> dict[str, list[str]]:
        """What is not as it was before the candidate came."""
        now = numerics()
        moved = [f"{name} = {now[name]}" for name, value in self._numerics.items() if now[name] != value]
        return {"numerics": moved, "tampered": self._integrity.changed()}

    def _request_build(self, spec: Any) -> dict[str, Any]:
        self._channel.send({"ask": "build", "spec": spec.to_json()})
        answer, descriptors = self._channel.receive()
        close_all(descriptors)
        build: dict[str, Any] = answer["build"]
        if build["ok"]:
            self._launches.note_build(build)
        return build

    def construct(self, header: dict[str, Any], descriptors: list[int]) -> Answer:
        """``ModelNew(*init)`` under the construction seed that both sides share."""
        from stitchcuda.tools.checks.inputs import seed_everything

        arguments = unpack(header["init"], descriptors)
        seed_everything(header["seed"])
        make = self._module.ModelNew
        model = make(**arguments) if isinstance(arguments, dict) else make(*arguments)
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"ModelNew is no torch.nn.Module but a {type(model).__name__}")
        model = model.to(self._device) if self._device.type == "cuda" else model
        if model.training != header["training"]:
            model.train(header["training"])
        self._model = model
        return {"state": describe_state(model)}, []

    def state(self, header: dict[str, Any], descriptors: list[int]) -> Answer:
        """Values for parameters and buffers; ``names`` maps the sender's names to ours."""
        ours: dict[str, torch.Tensor] = dict(self._model.named_parameters(remove_duplicate=False))
        ours |= dict(self._model.named_buffers(remove_duplicate=False))
        values = unpack(header["state"], descriptors)
        with torch.no_grad():
            for theirs, name in header["names"].items():
                ours[name].copy_(values[theirs])
        return {}, []

    def call(self, header: dict[str, Any], descriptors: list[int]) -> Answer:
        """One forward pass. ``held`` sends the outputs of the previous call once more, after this one."""
        inputs = unpack(header["inputs"], descriptors, self._device)
        if header["reuse"]:
            inputs = self._in_slot(inputs)
        pristine = map_tensors(inputs, torch.clone)
        if self._device.type == "cpu":
            if not header["reuse"]:  # torch's own memory, of which a sanitized extension knows the bounds
                inputs, pristine = pristine, inputs
            use_schedule(SCHEDULES[self._calls % len(SCHEDULES)])  # a race gives wrong values in one of them
            self._calls += 1
        self._poison(header["output_bytes"])
        threads = threads_alive()
        with torch.no_grad():
            launches, operators = None, None
            if header["count"]:
                (outputs, launches), operators = log_operators(
                    lambda: self._launches.during(lambda: self._host_reads.during(lambda: self._model(*inputs))),
                    self._folder,
                )
                if self._host_reads.elements:
                    operators.append([HOST_READ, self._host_reads.elements])
            else:
                outputs = self._model(*inputs)
        self._wait()
        packed: dict[str, Any] = {"outputs": outputs}
        if header["held"]:
            packed["held"] = self._held
        if header["buffers"]:
            packed["buffers"] = floating_buffers(self._model)
        tree, attached = pack(packed)
        parts = dict(tree["items"])
        late = late_change(outputs, threads) if header["count"] else False
        mutated = _differ(inputs, pristine)
        self._held = outputs if header["hold"] else None
        if not header["hold"]:
            self._spoil(outputs, inputs)
        watched = {"launches": launches, "operators": operators, "mutated": mutated, "late": late, **self._tampering()}
        return {**parts, **watched}, attached

    def _in_slot(self, inputs: Any) -> Any:
        """The contents in the same tensors as last time: same objects, same addresses."""
        if self._slot is None or not _alike(self._slot, inputs):
            self._slot = inputs
            return inputs
        for kept, new in zip(tensors_of(self._slot), tensors_of(inputs), strict=True):
            kept.copy_(new)
        return self._slot

    def _spoil(self, outputs: Any, inputs: Any) -> None:
        """Overwrite what was returned, as a caller may: a cache that hands it out again gives itself away."""
        kept = [*tensors_of(inputs), *self._model.parameters(), *self._model.buffers()]
        foreign = {tensor.untyped_storage().data_ptr() for tensor in kept}
        with torch.inference_mode():
            for tensor in tensors_of(outputs):
                plain = type(tensor) is torch.Tensor and tensor.layout is torch.strided and tensor.device.type != "meta"
                if not plain or tensor.untyped_storage().data_ptr() in foreign:
                    continue
                if tensor.is_floating_point() and all(stride for stride in tensor.stride()):
                    tensor.fill_(float("nan"))

    def soak(self, header: dict[str, Any], descriptors: list[int]) -> Answer:
        """Calls that nobody looks at, so that the next one is not among the first few."""
        inputs = unpack(header["inputs"], descriptors, self._device)
        with torch.no_grad():
            for _ in range(header["calls"]):
                self._model(*map_tensors(inputs, torch.clone))
        self._wait()
        return {}, []

    def profile(self, header: dict[str, Any], descriptors: list[int]) -> Answer:
        inputs = unpack(header["inputs"], descriptors, self._device)
        return {"profile": profile_call(self._model, inputs, self._device)}, []

    def time_setup(self, header: dict[str, Any], descriptors: list[int]) -> Answer:
        if self._timed is None:
            self._timed = TimedCalls(self._model, self._device)
        self._timed.add(map_tensors(unpack(header["inputs"], descriptors, self._device), torch.Tensor.contiguous))
        return {}, []

    def time_round(self, header: dict[str, Any], _: list[int]) -> Answer:
        assert self._timed is not None
        return {"ms": self._timed.round(header["order"])}, []

    def time_batch(self, header: dict[str, Any], _: list[int]) -> Answer:
        assert self._timed is not None
        self._timed.batch(header["calls"])
        return {}, []

    def time_last(self, _header: dict[str, Any], _: list[int]) -> Answer:
        """What the last timed call returned."""
        assert self._timed is not None
        tree, attached = pack(self._timed.last)
        return {"outputs": tree}, attached

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        elif (failed := self._launches.take_error()) is not None:
            raise RuntimeError(f"CUDA error: {failed}")

    def _poison(self, sizes: list[int]) -> None:
        """Leave NaN in the memory that the outputs will probably be given, so that a skipped write shows."""
        if sum(sizes) > 8 << 30:
            return
        blocks = [torch.full(((size + 3) // 4,), float("nan"), device=self._device) for size in sizes if size]
        self._wait()
        del blocks


def _alike(a: Any, b: Any) -> bool:
    pairs = [tensors_of(a), tensors_of(b)]
    return [(t.shape, t.dtype) for t in pairs[0]] == [(t.shape, t.dtype) for t in pairs[1]]


def _differ(inputs: Any, pristine: Any) -> list[int]:
    """Numbers of the input tensors whose bytes changed."""
    changed = []
    for i, (used, sent) in enumerate(zip(tensors_of(inputs), tensors_of(pristine), strict=True)):
        same = used.shape == sent.shape and used.dtype == sent.dtype
        if not same or not torch.equal(_bytes(used), _bytes(sent)):
            changed.append(i)
    return changed


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)
