"""Fusion groups, the two sizes, and the candidate's text: everything that needs no build."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable

import pytest
from codegen_programs import PROGRAMS, source_of

from stitchcuda.codegen import Trace, TraceError, emit, find_groups, open_workspace, parse_schedule, schedule_space
from stitchcuda.codegen.sizes import Pair, find_expression

TraceOf = Callable[[str], Trace]


def problem(forward: str, inputs: str, init: str = "pass", constants: str = "") -> str:
    """A problem around a ``forward`` body of one argument ``x``."""
    lines = "\n        ".join(forward.strip().splitlines())
    return (
        f"import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n{constants}\n\n"
        f"class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n\n"
        f"    def forward(self, x):\n        {lines}\n\n"
        f"def get_inputs():\n    return [{inputs}]\n\ndef get_init_inputs():\n    return []\n"
    )


def test_a_node_between_two_members_is_not_swallowed(trace_of: TraceOf) -> None:
    # relu feeds both the sum directly and, through a matrix product, once more: one kernel would need its own result.
    trace = trace_of(problem("a = torch.relu(x)\nb = a @ a\nreturn a + b", "torch.randn(8, 8)"))
    groups = find_groups(trace)
    assert [group.op_kinds for group in groups] == [("relu",), ("add",)]


def test_two_groups_never_wait_for_each_other(trace_of: TraceOf) -> None:
    # Each pair alone would be convex; both together would be a cycle through the two matrix products.
    text = "a = torch.relu(x)\nb = torch.tanh(x.t())\nc = a @ a\nd = b @ b\nreturn a * d, b * c"
    source = problem(text, "torch.randn(8, 8)")
    trace = trace_of(source)
    assert sorted(group.op_kinds for group in find_groups(trace)) == [("mul",), ("relu", "mul"), ("tanh",)]
    compile(emit(source, trace), "candidate.py", "exec")


def test_groups_say_what_they_read_and_save(trace_of: TraceOf) -> None:
    (group,) = find_groups(trace_of(problem("return torch.tanh(x * 2.0 + 1.0)", "torch.randn(64, 32)")))
    assert (group.inputs, len(group.outputs)) == (("x",), 1)
    assert (group.bytes_before, group.bytes_after) == (6 * 64 * 32 * 4, 2 * 64 * 32 * 4)


def test_row_reduction_takes_its_elementwise_neighbours(trace_of: TraceOf) -> None:
    source = problem("return F.gelu(torch.softmax(x * 0.5, dim=-1))", "torch.randn(64, 32)")
    (group,) = find_groups(trace_of(source))
    assert (group.kind, group.op_kinds, group.row_dims) == ("row", ("mul", "softmax", "gelu"), 1)


def test_effects_and_views_stay_with_pytorch_and_are_labelled(trace_of: TraceOf) -> None:
    source = problem(
        "return F.dropout(self.bn(x), 0.5), x.view(-1)", "torch.randn(8, 4, 5, 5)", "self.bn = nn.BatchNorm2d(4)"
    )
    workspace = open_workspace(source, trace_of(source))
    assert workspace.groups == ()
    left = " ".join(workspace.left_over([]))
    assert "batch_norm: changes memory" in left
    assert "dropout: draws random numbers" in left
    assert "view" not in left


def test_writing_into_an_input_is_never_fused(trace_of: TraceOf) -> None:
    source = problem("y = x * 2.0\nx.add_(1.0)\nreturn y + x", "torch.randn(4, 4)")
    candidate = emit(source, trace_of(source))
    assert "x.add_(1.0)" in candidate
    assert candidate.index("x * 2.0") < candidate.index("x.add_(1.0)")


def test_one_candidate_serves_both_sizes(trace_of: TraceOf) -> None:
    text = """
h = x.shape[-1] // 3
y = x.view(x.shape[0], x.shape[1], 3, h).permute(0, 2, 1, 3).reshape(x.shape[0] * 3, -1)
return torch.relu(y * h ** -0.5)[:, : y.shape[1] // 2]
"""
    full, small = (problem(text, shape) for shape in ("torch.randn(16, 32, 96)", "torch.randn(2, 8, 24)"))
    workspace = open_workspace(full, trace_of(full), trace_of(small))
    assert workspace.conflict == ""
    candidate = workspace.emit([group.id for group in workspace.groups], {})
    forward = candidate[candidate.index("def forward") :]
    assert not {"16", "32", "48", "512"} & set(_numbers(forward))

    plain = workspace.emit([], {})
    for source in (full, small):
        reference, new = _modules(source, plain)
        (value,) = reference["get_inputs"]()
        assert (new["ModelNew"]()(value) == reference["Model"]()(value)).all()


def test_sizes_that_no_shape_explains_are_said(trace_of: TraceOf) -> None:
    full = problem("return torch.relu(x) + torch.zeros(k).sum()", "torch.randn(8, 8)", constants="k = 1000")
    small = full.replace("k = 1000", "k = 7")
    workspace = open_workspace(full, trace_of(full), trace_of(small))
    assert "1000 at full size and 7 at reduced size" in workspace.conflict
    candidate = workspace.emit([group.id for group in workspace.groups], {})
    assert "Written for reduced sizes only" in candidate


def test_another_number_of_steps_is_a_conflict(trace_of: TraceOf) -> None:
    full = problem("for _ in range(k):\n    x = torch.tanh(x @ x)\nreturn x", "torch.randn(8, 8)", constants="k = 4")
    workspace = open_workspace(full, trace_of(full), trace_of(full.replace("k = 4", "k = 2")))
    assert "operations at full size" in workspace.conflict
    assert len(workspace.groups) == 2


@pytest.mark.parametrize(
    ("full", "reduced", "expected"),
    [
        (64, 8, "a"),
        (128, 16, "2 * a"),
        (32, 4, "a // 2"),
        (63, 7, "a - 1"),
        (64 * 10, 8 * 4, "a * b"),
        (8.0, 8**0.5, "a ** 0.5"),
        (1 / 64, 1 / 8, "1.0 / a"),
        (5, 3, None),
    ],
)
def test_expressions_are_right_at_both_sizes(full: float, reduced: float, expected: str | None) -> None:
    known = [Pair("a", 64, 8), Pair("b", 10, 4)]
    text = find_expression(full, reduced, known)
    assert text == expected
    if text is not None:
        assert eval(text, {"a": 64, "b": 10}) == pytest.approx(full)
        assert eval(text, {"a": 8, "b": 4}) == pytest.approx(reduced)


def test_the_same_trace_gives_the_same_text(trace_of: TraceOf) -> None:
    source = source_of(list(PROGRAMS))
    trace = trace_of(source)
    first = emit(source, trace)
    again = Trace.model_validate(json.loads(trace.model_dump_json()))
    assert emit(source, again) == first
    ast.parse(first)
    # Equal groups share a kernel.
    twice = problem("y = torch.tanh(x) + 1.0\nreturn torch.tanh(y @ y) + 1.0", "torch.randn(8, 8)")
    assert emit(twice, trace_of(twice)).count("__global__") == 1


def test_a_reference_may_use_our_names(trace_of: TraceOf) -> None:
    source = problem("linear = torch.relu(x)\nreturn linear", "torch.randn(8, 8)", constants="kernels = [3, 5]")
    candidate = emit(source, trace_of(source))
    assert "own_kernels = load_inline(" in candidate
    assert "own_kernels.fused_relu(x)" in candidate


def test_plain_arguments_are_fixed_and_checked(trace_of: TraceOf) -> None:
    source = problem("return torch.relu(x) * n", "torch.randn(8, 8), 3")
    source = source.replace("forward(self, x)", "forward(self, x, n, mode='up')")
    plain = open_workspace(source, trace_of(source)).emit([], {})
    _, new = _modules(source, plain)
    x = new["torch"].ones(2, 2)  # type: ignore[attr-defined]
    model = new["ModelNew"]()  # type: ignore[operator]
    assert float(model(x, 3).sum()) == 12.0
    with pytest.raises(ValueError, match="written for n=3"):
        model(x, 4)
    # At another size the argument itself gives the number.
    small = source.replace("torch.randn(8, 8), 3", "torch.randn(4, 4), 2")
    both = open_workspace(source, trace_of(source), trace_of(small))
    assert both.conflict == ""
    assert "torch.relu(x) * n" in both.emit([], {}) or "relu * n" in both.emit([], {})


def test_schedules_are_recorded_as_text(trace_of: TraceOf) -> None:
    source = problem("return torch.softmax(x, -1), torch.relu(x)", "torch.randn(64, 32)")
    for group in find_groups(trace_of(source)):
        space = schedule_space(group)
        assert len(space) == len(set(space)) >= 5
        assert [parse_schedule(str(schedule)) for schedule in space] == list(space)


def test_a_reference_that_cannot_be_captured_is_one_line(trace_of: TraceOf) -> None:
    with pytest.raises(TraceError) as caught:
        trace_of(problem("return x * x.sum().item() if x.sum().item() > 0 else x", "torch.randn(4)"))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("the reference cannot be captured")


def test_the_compiler_needs_no_torch() -> None:
    code = "import stitchcuda.codegen, stitchcuda.nodes.engines.embedded, sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def _numbers(text: str) -> list[str]:
    import re

    return re.findall(r"(?<![\w.])\d+(?![\w.])", text)


def _modules(source: str, candidate: str) -> tuple[dict[str, object], dict[str, object]]:
    reference: dict[str, object] = {}
    new: dict[str, object] = {}
    exec(compile(source, "reference.py", "exec"), reference)
    exec(compile(candidate, "candidate.py", "exec"), new)
    return reference, new
