"""Write a whole candidate: own kernels for the enabled groups, PyTorch calls for the rest.

Comes in: the problem's source, its trace at full size and (for the ``cpu`` device) at reduced size, the groups to
implement and their schedules. Goes out: one self-contained Python file that defines ``ModelNew``. The same input
gives the same text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from functools import partial

from stitchcuda.codegen.emit_body import Kernel
from stitchcuda.codegen.emit_elementwise import elementwise_kernel
from stitchcuda.codegen.emit_rows import row_kernel
from stitchcuda.codegen.forward import ForwardWriter, SizeConflict
from stitchcuda.codegen.groups import Group, groups_of
from stitchcuda.codegen.leftover import left_over
from stitchcuda.codegen.ops import HELPERS
from stitchcuda.codegen.preamble import preamble
from stitchcuda.codegen.program import Program, prepare
from stitchcuda.codegen.reference import with_new_forward
from stitchcuda.codegen.rows import row_operand_fits
from stitchcuda.codegen.schedule import default_schedule, parse_schedule
from stitchcuda.codegen.sizes import structure_conflict
from stitchcuda.codegen.trace import Trace
from stitchcuda.core.files import sha256_text

__all__ = ["Workspace", "emit", "open_workspace"]


@dataclass(frozen=True)
class Workspace:
    """A problem ready for emission, at one or at two sizes."""

    source: str
    program: Program
    reduced: Program | None
    groups: tuple[Group, ...]
    conflict: str
    """Why one candidate cannot serve both sizes; it is then written for the device's sizes only."""
    dropped: tuple[str, ...] = ()
    """Groups that hold at full size only, with the reason."""

    def left_over(self, enabled: Collection[str]) -> tuple[str, ...]:
        """A line per op that stays with PyTorch when the groups in ``enabled`` are implemented."""
        covered = {op for group in self.groups if group.id in enabled for op in group.ops}
        return left_over(self.program, covered)

    def emit(self, enabled: Collection[str], choices: Mapping[str, str]) -> str:
        """The candidate's text."""
        return _write(self, [group for group in self.groups if group.id in enabled], choices)


def open_workspace(source: str, trace: Trace, trace_reduced: Trace | None = None) -> Workspace:
    """Prepare a problem; with two traces the candidate is to be right at both sizes."""
    program = prepare(trace)
    if trace_reduced is None:
        return Workspace(source, program, None, groups_of(program), "")
    reduced = prepare(trace_reduced)
    conflict = structure_conflict(program, reduced)
    if not conflict:
        groups, dropped = _valid_at_both(groups_of(program), reduced)
        both = Workspace(source, program, reduced, groups, "", dropped)
        try:
            # Every subset of groups is made of calls that appear in one of these two.
            both.emit([group.id for group in groups], {})
            both.emit([], {})
            return both
        except SizeConflict as error:
            conflict = str(error)
    return Workspace(source, reduced, None, groups_of(reduced), conflict)


def emit(
    problem_source: str,
    trace: Trace,
    trace_reduced: Trace | None = None,
    enabled: Collection[str] | None = None,
    choices: Mapping[str, str] | None = None,
) -> str:
    """Write a candidate.

    Args:
        enabled: ids of the groups that get own kernels; all of them when ``None``.
        choices: group id to schedule text; the default schedule where a group is missing.
    """
    workspace = open_workspace(problem_source, trace, trace_reduced)
    ids = [group.id for group in workspace.groups] if enabled is None else enabled
    return workspace.emit(ids, choices or {})


def _valid_at_both(groups: tuple[Group, ...], reduced: Program) -> tuple[tuple[Group, ...], tuple[str, ...]]:
    """Groups whose shapes relate at the reduced size as they do at the full size."""
    specs = reduced.specs()
    kept, dropped = [], []
    for group in groups:
        inputs = [specs[name].shape for name in group.inputs]
        if group.kind == "elementwise":
            domain = specs[group.outputs[-1]].shape
            fits = all(specs[name].shape == domain for name in group.outputs)
            fits = fits and all(_broadcasts_to(shape, domain) for shape in inputs)
        else:
            rank = len(group.domain)
            wide = [name for name in group.inputs if len(specs[name].shape) == rank]
            domain = max((specs[name].shape for name in wide), key=lambda shape: _count(shape), default=())
            fits = len(domain) == rank and all(row_operand_fits(shape, domain, group.row_dims) for shape in inputs)
        if fits:
            kept.append(group)
        else:
            dropped.append(f"{group.title}: its shapes relate differently at the reduced size")
    return tuple(kept), tuple(dropped)


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _broadcasts_to(shape: tuple[int, ...], domain: tuple[int, ...]) -> bool:
    tail = domain[len(domain) - len(shape) :] if len(shape) <= len(domain) else ()
    return len(shape) <= len(domain) and all(a in (1, b) for a, b in zip(shape, tail, strict=True))


def _write(workspace: Workspace, groups: list[Group], choices: Mapping[str, str]) -> str:
    writer = ForwardWriter(workspace.program, workspace.reduced)
    kernels: list[Kernel] = []
    for group in groups:
        schedule = parse_schedule(choices[group.id]) if group.id in choices else default_schedule(group)
        write = elementwise_kernel if group.kind == "elementwise" else row_kernel
        kernels.append(write(workspace.program, group, schedule, writer.scalar))
    kernels = _shared(kernels)
    body = writer.write(groups, kernels)
    header = _header(workspace, groups, kernels)
    if re.search(r"\bkernels\b", workspace.source):
        # The reference has something of this name.
        body = [line.replace("kernels.fused_", "own_kernels.fused_") for line in body]
        header = header.replace("\nkernels = load_inline(", "\nown_kernels = load_inline(")
    return header + "\n\n" + with_new_forward(workspace.source, body)


def _shared(kernels: list[Kernel]) -> list[Kernel]:
    """Kernels with final names: equal text gets one name, different text different ones."""
    final: dict[str, str] = {}
    renamed = []
    for kernel in kernels:
        if kernel.cuda not in final:
            name, number = kernel.name, 2
            while name in final.values():
                name, number = f"{kernel.name}_{number}", number + 1
            final[kernel.cuda] = name
        name = final[kernel.cuda]
        pattern = re.compile(rf"\b(launch_)?{kernel.name}(_kernel)?\b")
        replace = partial(pattern.sub, lambda found, name=name: (found[1] or "") + name + (found[2] or ""))
        renamed.append(
            replace_fields(kernel, name=name, cuda=replace(kernel.cuda), declaration=replace(kernel.declaration))
        )
    return renamed


def _header(workspace: Workspace, groups: list[Group], kernels: list[Kernel]) -> str:
    left = workspace.left_over([group.id for group in groups])
    lines = ['"""The reference with its memory-bound parts fused into own CUDA kernels.', ""]
    for group, kernel in zip(groups, kernels, strict=True):
        lines.append(f"{group.id}: {group.title}, in {kernel.name}")
    unique = list({kernel.name: kernel for kernel in kernels}.values())
    if left:
        lines += ["", "Left to PyTorch:", *[f"- {line}" for line in left]]
    if workspace.conflict:
        lines += ["", f"Written for reduced sizes only: {workspace.conflict}."]
    lines += ['"""', "", "import torch", "import torch.nn as nn", "import torch.nn.functional as F"]
    if not kernels:
        return "\n".join(lines)
    specs = workspace.program.specs()
    used = {name for kernel in kernels for name in kernel.helpers}
    helpers = {name: HELPERS[name] for name in HELPERS if name in used}
    common = preamble(
        dtypes={specs[name].dtype for kernel in kernels for name in [*kernel.inputs, *kernel.outputs]},
        helpers=helpers,
        states={state for kernel in kernels for state in kernel.states},
        chains=any(kernel.chain for kernel in kernels),
    )
    cuda = common + "\n" + "\n".join(kernel.comment + "\n" + kernel.cuda for kernel in unique)
    cpp = (
        "\n".join(["#include <torch/extension.h>", "#include <vector>", "", *[kernel.declaration for kernel in unique]])
        + "\n"
    )
    digest = sha256_text(cuda + cpp)[:12]
    functions = ", ".join(f'"{kernel.name}"' for kernel in unique)
    lines += [
        "from torch.utils.cpp_extension import load_inline",
        "",
        f'CPP_SOURCE = r"""\n{cpp}"""',
        "",
        f'CUDA_SOURCE = r"""\n{cuda}"""',
        "",
        "kernels = load_inline(",
        f'    name="fused_kernels_{digest}",',
        "    cpp_sources=CPP_SOURCE,",
        "    cuda_sources=CUDA_SOURCE,",
        f"    functions=[{functions}],",
        '    extra_cuda_cflags=["-O3"],',
        "    verbose=False,",
        ")",
    ]
    return "\n".join(lines)
