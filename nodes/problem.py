"""The first two steps: load the problem and find out what it is and where its time goes."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, Literal

from langgraph.runtime import Runtime

from stitchcuda.core.errors import SettingsError, WorkerError, one_line
from stitchcuda.core.files import write_json
from stitchcuda.core.records import ProfileReport
from stitchcuda.graph.context import Context
from stitchcuda.graph.state import State
from stitchcuda.nodes.evidence import DeviceFacts, ProblemFacts
from stitchcuda.nodes.progress import say
from stitchcuda.nodes.run_folder import RunFolder, new_run_dir
from stitchcuda.nodes.sizes import isolated, sizes_for
from stitchcuda.nodes.workbench import settings_of, workbench
from stitchcuda.problems import Problem, load_kernelbench, load_problem
from stitchcuda.tools import inspect_machine, resolve_device
from stitchcuda.tools.machine import Machine
from stitchcuda.traces import span

__all__ = ["load_problem_node", "profile_reference"]

DESCRIBE_TIMEOUT_S = 300.0
TRACE_TIMEOUT_S = 600.0


def _load(state: State) -> Problem:
    if text := state.get("problem_json"):
        return Problem.model_validate_json(text)
    if path := state.get("problem_path"):
        return load_problem(Path(path))
    if checkout := state.get("kernelbench"):
        level, id = state.get("level"), state.get("id")
        if level is None or id is None:
            raise SettingsError("a KernelBench checkout needs a level and an id")
        return load_kernelbench(Path(checkout), level, [id])[0]
    raise SettingsError("no problem given: set problem_path, or kernelbench with level and id")


def _device_facts(device: str, machine: Machine) -> DeviceFacts:
    if device == "cpu":
        return DeviceFacts(device=device, name="CPU emulator")
    gpu = machine.gpus[int(device.partition(":")[2] or 0)]
    return DeviceFacts(
        device=device,
        name=gpu.name,
        compute_capability=gpu.compute_capability,
        memory_bytes=gpu.memory_bytes,
    )


async def load_problem_node(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
    """Load, prove that the reference runs, choose the device and the sizes, open the run folder."""
    started = time.monotonic()
    context = settings_of(runtime)
    problem = await asyncio.to_thread(_load, state)
    say("load_problem", f"loading {problem.name}")
    device = await asyncio.to_thread(resolve_device, context.device)
    machine = await asyncio.to_thread(inspect_machine)
    sizes, problem = await asyncio.to_thread(sizes_for, device, problem)
    async with span("describe", {"problem": problem.name, "sizes": sizes}) as step:
        facts = await asyncio.to_thread(
            isolated, "stitchcuda.problems.describe:describe", DESCRIBE_TIMEOUT_S, source=problem.at(sizes)
        )
        step.outputs = {"inputs": facts["inputs"], "parameter_count": facts["parameter_count"]}
    run_dir = await asyncio.to_thread(_open_folder, context, problem, sizes, machine)
    device_facts = _device_facts(device, machine)
    inputs = tuple(_spec_line(spec) for spec in facts["inputs"])
    say("load_problem", f"{problem.name} on {device_facts.name or device}: {', '.join(inputs)}")
    return {
        "run_dir": str(run_dir),
        "problem_name": problem.name,
        "device": device_facts,
        "sizes": sizes,
        "input_summary": inputs,
        "seconds_spent": time.monotonic() - started,
    }


def _open_folder(context: Context, problem: Problem, sizes: Literal["full", "reduced"], machine: Machine) -> Path:
    """Write what a resumed run starts from; the problem first, so that ``run.json`` marks a complete folder."""
    run_dir = Path(context.run_dir or new_run_dir(context.runs_dir, problem.slug)).absolute()
    folder = RunFolder(run_dir)
    folder.write_problem(problem, problem.at("reduced") if sizes == "reduced" else None)
    folder.write_settings(context.model_dump(mode="json"), machine.model_dump(mode="json"))
    return run_dir


async def _trace(source: str) -> tuple[dict[str, Any] | None, str]:
    try:
        async with span("trace_ops", {"source": source}) as step:
            trace: dict[str, Any] = await asyncio.to_thread(
                isolated, "stitchcuda.codegen.tracing:trace_source", TRACE_TIMEOUT_S, source=source
            )
            step.outputs = {"ops": await asyncio.to_thread(_op_lines, trace)}
        return trace, ""
    except WorkerError as error:
        return None, one_line(error)


async def profile_reference(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
    """Capture the op graph and measure where the reference's time goes on this device.

    Both are evidence, not preconditions: what cannot be had is said in the facts, and the run goes on.
    """
    started = time.monotonic()
    bench = await workbench(state, runtime)
    problem = await asyncio.to_thread(bench.folder.read_problem)
    reference = await asyncio.to_thread(bench.folder.reference, state["sizes"])
    say("profile_reference", "capturing the op graph")
    trace, error = await _trace(problem.source)
    reduced = None
    if state["sizes"] == "reduced":
        reduced, reduced_error = await _trace(reference)
        error = error or reduced_error
    facts = await asyncio.to_thread(
        isolated, "stitchcuda.problems.describe:describe", DESCRIBE_TIMEOUT_S, source=reference
    )
    problem_facts = ProblemFacts(
        name=problem.name,
        source=problem.source,
        input_summary=tuple(_spec_line(spec) for spec in facts["inputs"]),
        parameter_count=facts["parameter_count"],
        trace=trace,
        trace_reduced=reduced,
        trace_error=error,
        op_lines=await asyncio.to_thread(_op_lines, trace),
    )
    await asyncio.to_thread(bench.write_facts, problem_facts)
    say("profile_reference", f"timing the reference on {state['device'].device}")
    profile = await _profile(state, runtime)
    if profile is not None:
        path = bench.folder.path / "profiles" / "reference.json"
        await asyncio.to_thread(write_json, path, profile.model_dump(mode="json"))
    return {"profile": profile, "seconds_spent": time.monotonic() - started}


async def _profile(state: State, runtime: Runtime[Context]) -> ProfileReport | None:
    bench = await workbench(state, runtime)
    try:
        return await bench.evaluate("profile", lambda evaluator: evaluator.profile(None), source="the reference")
    except WorkerError as error:
        say("profile_reference", f"no profile: {one_line(error)}")
        return None


def _spec_line(spec: dict[str, Any]) -> str:
    """One input of ``problems.describe`` as text, for example ``float32[16, 1024]``."""
    if spec["kind"] == "tensor":
        return f"{spec['dtype']}[{', '.join(str(size) for size in spec['shape'])}]"
    if "items" in spec:
        items = spec["items"]
        values = [f"{key}: {_spec_line(item)}" for key, item in items.items()] if isinstance(items, dict) else None
        return f"{spec['kind']}({', '.join(values or [_spec_line(item) for item in items])})"
    return str(spec["repr"])


def _op_lines(trace: dict[str, Any] | None) -> tuple[str, ...]:
    if trace is None:
        return ()
    from stitchcuda.codegen import Trace

    return Trace.model_validate(trace).lines()
