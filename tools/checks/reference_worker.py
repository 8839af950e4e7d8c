"""The reference worker: executes the reference program, makes inputs, keeps the golden outputs, measures errors.

Trusted as far as verdicts go (it runs the user's own program), but walled in like every worker. Never holds candidate
code; it only ever maps the bytes of a candidate's outputs.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from stitchcuda.tools.checks.compare import compare, digest
from stitchcuda.tools.checks.controls import LowPrecision, failing_controls
from stitchcuda.tools.checks.downgrade import looks_downgraded
from stitchcuda.tools.checks.golden import Golden, ReferenceModel
from stitchcuda.tools.checks.inputs import (
    draw_inputs,
    edit,
    map_tensors,
    seed_everything,
    smaller_batch,
    tensors_of,
    vary,
)
from stitchcuda.tools.checks.laws import TIES
from stitchcuda.tools.checks.op_log import log_operators
from stitchcuda.tools.checks.program import describe_error, execute
from stitchcuda.tools.checks.weights import describe_state, floating_buffers, randomise
from stitchcuda.tools.profiling.torch_profile import profile_call
from stitchcuda.tools.sandbox.loop import serve
from stitchcuda.tools.sandbox.tensors import pack, unpack
from stitchcuda.tools.sandbox.wire import Channel
from stitchcuda.tools.timing.calls import TimedCalls
from stitchcuda.tools.timing.floor import compulsory_bytes, device_bandwidth

__all__ = ["main"]

Answer = tuple[dict[str, Any], Sequence[int]]
_LARGE_BYTES = 256 << 20
_HUGE_BYTES = 1 << 30
"""Of inputs or outputs; also above this, the candidate's earlier outputs are not read again (``run.py``)."""


class _Problem(Exception):
    """The reference cannot be used; the message is for the user."""


def main(channel: Channel, folder: Path) -> None:
    worker = _ReferenceWorker(folder)
    operations = {
        "load": worker.load,
        "weights": worker.weights,
        "inputs": worker.inputs,
        "repeat": worker.repeat,
        "smaller_batch": worker.smaller_batch,
        "compare": worker.compare,
        "profile": worker.profile,
        "time_setup": worker.time_setup,
        "time_round": worker.time_round,
        "time_batch": worker.time_batch,
        "time_golden": worker.time_golden,
        "time_floor": worker.time_floor,
        "time_end": worker.time_end,
    }
    serve(channel, {name: _told(operation) for name, operation in operations.items()})


def _told(operation: Any) -> Any:
    def run(header: dict[str, Any], descriptors: list[int]) -> Answer:
        try:
            result: Answer = operation(header, descriptors)
            return result
        except _Problem as problem:
            return {"problem": str(problem)}, []
        except Exception as error:  # noqa: BLE001  # told to the parent, which decides whose fault it is
            told = describe_error(error, "reference.py")
            memory = isinstance(error, (MemoryError, torch.OutOfMemoryError))
            return {"failed": told | {"out_of_memory": memory}}, []

    return run


class _ReferenceWorker:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._calls: dict[int, tuple[list[Any], Golden]] = {}
        self._timed: TimedCalls | None = None
        self._base: list[Any] | None = None

    def load(self, header: dict[str, Any], _: list[int]) -> Answer:
        """Execute the source, construct the model, see whether the problem can be judged at all."""
        self._device = torch.device(header["device"])
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)
        try:
            self._module = execute(header["source"], self._folder, "reference")
            for name in ("Model", "get_inputs"):
                if not hasattr(self._module, name):
                    raise _Problem(f"the reference defines no {name}")
            seed_everything(header["seed"])
            arguments = self._module.get_init_inputs() if hasattr(self._module, "get_init_inputs") else []
            tree, descriptors = pack(arguments)
            seed_everything(header["seed"])
            model = self._module.Model(**arguments) if isinstance(arguments, dict) else self._module.Model(*arguments)
            self._reference = ReferenceModel(model.to(self._device))
            self._low = LowPrecision(self._reference.model)
            self._initial = {name: t.clone() for name, t in model.state_dict().items()}
            inputs = self._draw(secrets.randbits(31), "as_given")
            if self._reference.is_random(inputs):
                raise _Problem(
                    "the reference is random (two runs on the same input differ, as with dropout in train mode): "
                    "its output cannot be compared; call .eval() in its constructor or remove the randomness"
                )
            operators = self._operators(inputs)
        except _Problem:
            raise
        except Exception as error:
            told = describe_error(error, "reference.py")
            where = f" (line {told['line']})" if told["line"] else ""
            raise _Problem(f"the reference fails: {told['kind']}: {told['message']}{where}") from error
        reply: dict[str, Any] = {
            "init": tree,
            "state": describe_state(model),
            "training": bool(model.training),
            "input_bytes": sum(t.numel() * t.element_size() for t in tensors_of(inputs)),
            "torch": torch.__version__,
            "operators": operators,
        }
        if self._device.type == "cuda":
            major, minor = torch.cuda.get_device_capability(self._device)
            reply |= {"target": f"sm_{major}{minor}", "gpu": torch.cuda.get_device_name(self._device)}
        return reply, descriptors

    def _operators(self, inputs: list[Any]) -> list[list[Any]]:
        with torch.no_grad():
            _, operators = log_operators(lambda: self._reference.model(*map_tensors(inputs, torch.clone)), self._folder)
        self._reference.model.load_state_dict(self._initial)
        return operators

    def weights(self, header: dict[str, Any], _: list[int]) -> Answer:
        """Back to the values at construction, or new ones from a seed; the values go out by name."""
        model = self._reference.model
        model.load_state_dict(self._initial)
        if header["seed"] is not None:
            randomise(model, torch.Generator().manual_seed(header["seed"]))
        wanted = set(header["names"])
        named = [
            *model.named_parameters(remove_duplicate=False),
            *model.named_buffers(remove_duplicate=False),
        ]
        tree, descriptors = pack({name: tensor for name, tensor in named if name in wanted})
        return {"state": tree}, descriptors

    def inputs(self, header: dict[str, Any], _: list[int]) -> Answer:
        """New inputs for call number ``call``, and their golden outputs."""
        law = header["law"]
        if header["call"] == 0:
            self._calls.clear()  # those of another candidate
        self._make_room()
        inputs, golden = self._drawn(header["seed"], law)
        if law != "as_given" and not self._usable(law, golden):
            # The law leaves the problem's domain (a logarithm of negative numbers): it would prove nothing.
            law = "as_given"
            inputs, golden = self._drawn(header["seed"], law)
        assert golden is not None
        self._keep(header["call"], inputs, golden)
        failed = self._controls(header, inputs, golden)
        return self._send_inputs(inputs, golden) | {"law": law, "failed_controls": failed}, self._descriptors

    def _controls(self, header: dict[str, Any], inputs: list[Any], golden: Golden) -> list[str]:
        names: list[str] = header.get("controls") or []
        if not names or sum(golden.output_bytes) > _HUGE_BYTES:
            return names
        first = self._calls.get(0) if header["call"] else None
        return failing_controls(names, golden, inputs, first[1] if first else None, self._low, header["tolerances"])

    def _draw(self, seed: int, law: str) -> list[Any]:
        """Fresh inputs; large ones are drawn once and then made new on the device, which is a hundred times faster."""
        if self._base is None:
            inputs = draw_inputs(self._module, seed, law, self._device)
            if sum(t.numel() * t.element_size() for t in tensors_of(inputs)) > _LARGE_BYTES:
                # From a seed of its own: every set that is sent out then differs from what get_inputs ever gave.
                self._base = draw_inputs(self._module, secrets.randbits(31), "as_given", self._device)
        return inputs if self._base is None else vary(self._base, seed, law)

    def _drawn(self, seed: int, law: str) -> tuple[list[Any], Golden | None]:
        inputs = self._draw(seed, "as_given" if law == "edited" else law)
        latest = self._calls[max(self._calls)][0] if self._calls else None
        if law == "edited" and latest is not None:
            inputs = edit(latest, inputs)
        model = self._reference.model
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        try:
            golden = self._reference.call(inputs)
        except Exception:
            if law == "as_given":
                raise
            golden = None
        if law != "as_given" and not self._usable(law, golden):
            model.load_state_dict(before)
        return inputs, golden

    def _usable(self, law: str, golden: Golden | None) -> bool:
        """Whether inputs of this law are within the problem's domain, with one right answer."""
        if golden is None or not golden.all_finite:
            return False
        return law not in TIES or all(t.is_floating_point() for t in tensors_of(golden.plain))

    def smaller_batch(self, header: dict[str, Any], _: list[int]) -> Answer:
        """Inputs with one item less, if the program takes them and its outputs follow; ``{"legal": False}`` if not."""
        inputs, golden = self._calls[max(self._calls)]
        self._make_room()
        smaller = smaller_batch(inputs)
        if smaller is None:
            return {"legal": False}, []
        fewer, batch = smaller
        before = {name: tensor.clone() for name, tensor in self._reference.model.state_dict().items()}
        try:
            other = self._reference.call(fewer)
        except Exception:  # noqa: BLE001  # a program that refuses another batch just has no such trial
            self._reference.model.load_state_dict(before)
            return {"legal": False}, []
        pairs = list(zip(tensors_of(golden.plain), tensors_of(other.plain), strict=False))
        follows = all(old.shape[:1] == (batch,) and new.shape == (batch - 1, *old.shape[1:]) for old, new in pairs)
        if not pairs or not follows or not other.all_finite:
            self._reference.model.load_state_dict(before)
            return {"legal": False}, []
        self._keep(header["call"], fewer, other)
        return self._send_inputs(fewer, other) | {"law": "smaller_batch", "legal": True}, self._descriptors

    def repeat(self, header: dict[str, Any], _: list[int]) -> Answer:
        """The inputs of an earlier call again, under a new number."""
        inputs, _golden = self._calls[header["of"]]
        self._make_room()
        golden = self._reference.call(inputs)
        self._keep(header["call"], inputs, golden)
        return self._send_inputs(inputs, golden) | {"law": "repeated"}, self._descriptors

    def _send_inputs(self, inputs: list[Any], golden: Golden) -> dict[str, Any]:
        tree, self._descriptors = pack(inputs)
        return {
            "inputs": tree,
            "inputs_mutated": golden.inputs_mutated,
            "output_bytes": golden.output_bytes,
            "finite": any(bool(torch.isfinite(t).any()) for t in tensors_of(golden.plain) if t.numel()),
            "exact": golden.exact is not None,
            "exact_error": self._reference.exact_error,
        }

    def _keep(self, call: int, inputs: list[Any], golden: Golden) -> None:
        # The first and the two latest: what a replayed or overwritten output is recognised by.
        self._calls = {number: kept for number, kept in self._calls.items() if number == 0 or number >= call - 1}
        self._calls[call] = (inputs, golden)
        if self._device.type == "cuda" and sum(golden.output_bytes) > _HUGE_BYTES:
            torch.cuda.empty_cache()

    def _make_room(self) -> None:
        """Forget earlier calls of a problem so large that the candidate would miss the memory."""
        inputs = sum(t.numel() * t.element_size() for t in tensors_of(self._base or []))
        outputs = max((sum(golden.output_bytes) for _, golden in self._calls.values()), default=0)
        if max(inputs, outputs) <= _HUGE_BYTES:
            return
        self._calls.clear()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def compare(self, header: dict[str, Any], descriptors: list[int]) -> Answer:
        """Numbers for the outputs of call ``call``; also whether they rather equal those of an earlier call."""
        tree, tolerances = header["outputs"], header["tolerances"]
        _, golden = self._calls[header["call"]]
        try:
            outputs = _unpack_leniently(tree, descriptors, self._device)
            leaves = compare(golden, tree, outputs, tolerances)
            buffers = self._compare_buffers(header, descriptors)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            return {"malformed": str(error)}, []
        failed = any(leaf["kind"] != "values" or leaf["mismatched"] for leaf in leaves)
        equals = []
        if failed and all(leaf["kind"] == "values" for leaf in leaves):
            for number, (_, earlier) in self._calls.items():
                if number < header["call"]:
                    others = compare(earlier, tree, outputs, tolerances)
                    if all(leaf["kind"] == "values" and not leaf["mismatched"] for leaf in others):
                        equals.append(number)
        downgraded = False
        if failed and not equals and all(leaf["kind"] == "values" for leaf in leaves):
            large = sum(golden.output_bytes) > _HUGE_BYTES
            low = None if large else self._low.outputs(self._calls[header["call"]][0])
            downgraded = looks_downgraded(golden, outputs, low)
        reply = {
            "leaves": leaves,
            "buffers": buffers,
            "equals_call": equals,
            "digest": digest(tensors_of(outputs)),
            "downgraded": downgraded,
        }
        return reply, []

    def _compare_buffers(self, header: dict[str, Any], descriptors: list[int]) -> list[dict[str, Any]]:
        if header.get("buffers") is None:
            return []
        ours = {name: t for name, t in floating_buffers(self._reference.model).items() if name in header["names"]}
        theirs = dict(header["buffers"]["items"])
        found: list[dict[str, Any]] = []
        for name, tensor in ours.items():
            item = theirs.get(header["names"][name])
            if item is None:
                continue
            got = unpack(item, descriptors, self._device)
            golden = Golden(tensor, None, False)
            found += [leaf | {"path": f"buffer {name}"} for leaf in compare(golden, item, got, header["tolerances"])]
        return found

    def profile(self, header: dict[str, Any], _: list[int]) -> Answer:
        inputs = self._draw(header["seed"], "as_given")
        return {"profile": profile_call(self._reference.model, inputs, self._device)}, []

    def time_setup(self, header: dict[str, Any], _: list[int]) -> Answer:
        """Draw the sets of inputs that the timed calls use; they go out one by one, by ``time_setup`` with ``set``."""
        if self._timed is None:
            self._calls.clear()
            self._timed = TimedCalls(self._reference.model, self._device)
        inputs = self._draw(header["seed"], "as_given")
        self._timed.add(inputs)
        tree, descriptors = pack(inputs)
        return {"inputs": tree}, descriptors

    def time_round(self, header: dict[str, Any], _: list[int]) -> Answer:
        assert self._timed is not None
        try:
            return {"ms": self._timed.round(header["order"], side=header["side"])}, []
        except Exception as error:
            if not header["side"].startswith("compile"):
                raise
            told = describe_error(error, "reference.py")  # a baseline that does not compile is no baseline
            return {"uncompiled": f"{told['kind']}: {told['message']}"[:300]}, []

    def time_batch(self, header: dict[str, Any], _: list[int]) -> Answer:
        assert self._timed is not None
        self._timed.batch(header["calls"])
        return {}, []

    def time_golden(self, header: dict[str, Any], _: list[int]) -> Answer:
        """Golden outputs for what the candidate returned last in a round, as call ``call``."""
        assert self._timed is not None
        inputs = self._timed.contents_of(header["entry"])
        self._keep(header["call"], inputs, self._reference.call(inputs))
        return {}, []

    def time_floor(self, header: dict[str, Any], _: list[int]) -> Answer:
        """What every correct program has to move, and how fast this device's memory is."""
        inputs = self._draw(header["seed"], "as_given")
        cache = int(getattr(torch.cuda.get_device_properties(self._device), "L2_cache_size", 0)) or 64 << 20
        before = {name: tensor.clone() for name, tensor in self._reference.model.state_dict().items()}
        moved = compulsory_bytes(self._reference.model, inputs, header["seed"], cache_bytes=cache)
        self._reference.model.load_state_dict(before)
        return {"bytes": moved, "bytes_per_s": device_bandwidth(self._device)}, []

    def time_end(self, _header: dict[str, Any], _: list[int]) -> Answer:
        """Give the memory of the timed sets back."""
        self._timed = None
        self._calls.clear()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        return {}, []


def _unpack_leniently(tree: Any, descriptors: Sequence[int], device: torch.device) -> Any:
    """As ``unpack``, with ``None`` for leaves of a type that cannot be passed; they fail by their type later."""
    kind = tree.get("t")
    if kind in ("tuple", "list"):
        return [_unpack_leniently(item, descriptors, device) for item in tree["items"]]
    if kind == "dict":
        return {str(key): _unpack_leniently(item, descriptors, device) for key, item in tree["items"]}
    return None if kind == "other" else unpack(tree, descriptors, device)
