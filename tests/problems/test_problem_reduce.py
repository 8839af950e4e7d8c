"""Small sizes keep what holds the program together, and are proved by a run."""

from __future__ import annotations

import pytest

from stitchcuda.core.errors import ProblemError
from stitchcuda.problems import Problem
from stitchcuda.problems.describe import describe
from stitchcuda.problems.reduce import reduce_sizes


def program(constants: str, body: str, inputs: str, init: str = "", arguments: str = "") -> str:
    return f"""\
import torch
import torch.nn as nn
import torch.nn.functional as F

{constants}

class Model(nn.Module):
    def __init__(self{", " if arguments else ""}{arguments}):
        super().__init__()
        {init or "pass"}

    def forward(self, *x):
        {body}

def get_inputs():
    return {inputs}

def get_init_inputs():
    return [{arguments}]
"""


def reduced_facts(source: str) -> tuple[dict, dict]:
    """The sizes, and the description of the program with them (which runs it again)."""
    result = reduce_sizes(source)
    assert result["ok"], result["reason"]
    assert result["input_elements"] <= 200_000
    problem = Problem(name="p", source=source, origin="test", reduced=result["reduced"])
    return result["reduced"], describe(problem.at("reduced"))


def test_the_largest_constants_shrink_and_small_ones_stay():
    source = program(
        "batch = 64\nchannels = 32\nside = 512\nkernel = 3",
        "return self.conv(*x)",
        "[torch.rand(batch, channels, side, side)]",
        "self.conv = nn.Conv2d(channels, 2 * channels, kernel)",
        "channels, kernel",
    )
    sizes, facts = reduced_facts(source)
    assert "kernel" not in sizes
    assert sizes["side"] < 512
    assert facts["output"]["shape"][2] == sizes["side"] - 2


def test_equal_numbers_stay_equal():
    """A hinge loss whose targets [batch] only broadcast against [batch, features] when both are the same."""
    source = program(
        "batch = 32768\nshape = (32768,)",
        "return torch.mean(torch.clamp(1 - x[0] * x[1], min=0))",
        "[torch.rand(batch, *shape), torch.randint(0, 2, (batch,)).float() * 2 - 1]",
    )
    sizes, facts = reduced_facts(source)
    assert sizes["batch"] == sizes["shape[0]"] < 500
    assert facts["output"]["shape"] == []


@pytest.mark.parametrize(("heads", "width"), [(8, 768), (12, 768), (16, 1024)])
def test_heads_still_divide_the_width(heads, width):
    source = program(
        f"batch = 64\ntokens = 512\nwidth = {width}\nheads = {heads}",
        "return self.attention(x[0], x[0], x[0])[0]",
        "[torch.rand(tokens, batch, width)]",
        "self.attention = nn.MultiheadAttention(width, heads)",
        "width, heads",
    )
    sizes, facts = reduced_facts(source)
    assert sizes.get("width", width) % sizes.get("heads", heads) == 0
    assert facts["parameter_count"] <= 2_000_000


def test_groups_still_divide_the_channels():
    source = program(
        "batch = 4096\nfeatures = 8192\ngroups = 512",
        "return self.norm(*x)",
        "[torch.rand(batch, features)]",
        "self.norm = nn.GroupNorm(groups, features)",
        "groups, features",
    )
    sizes, _ = reduced_facts(source)
    assert sizes.get("features", 8192) % sizes.get("groups", 512) == 0


def test_numbers_that_only_shrink_together():
    """The flattened size is a constant of its own; halving the side alone breaks the program."""
    source = program(
        "batch = 512\npixels = 4096\nflat = 12288",
        "return self.linear(x[0].reshape(x[0].shape[0], -1))",
        "[torch.rand(batch, 3, pixels)]",
        "self.linear = nn.Linear(flat, 10)",
        "flat",
    )
    sizes, _ = reduced_facts(source)
    assert sizes.get("flat", 12288) == 3 * sizes.get("pixels", 4096)


def test_literals_inside_get_inputs():
    source = program(
        "batch = 10\ncount = 100",
        "return self.conv(*x).mean((2, 3))",
        "[torch.rand(batch, 3, 224, 224)]",
        "self.conv = nn.Conv2d(3, 16, 7)",
    )
    sizes, facts = reduced_facts(source)
    assert sizes["get_inputs:224"] < 224
    assert "count" not in sizes
    assert facts["inputs"][0]["shape"] == [sizes.get("batch", 10), 3, *[sizes["get_inputs:224"]] * 2]


def test_layers_stay_when_that_is_affordable():
    source = program(
        "batch = 4096\nwidth = 1024\nlayers = 24",
        "return self.stack(*x)",
        "[torch.rand(batch, width)]",
        "self.stack = nn.Sequential(*[nn.Linear(width, width) for _ in range(layers)])",
        "width, layers",
    )
    result = reduce_sizes(source)
    assert result["ok"]
    assert "layers" not in result["reduced"]
    assert result["same_ops"] is True


def test_derived_constants_follow():
    source = program(
        "rows = 1024 * 16\nhalf = rows // 2",
        "return x[0][: x[1].shape[0]] + x[1]",
        "[torch.rand(rows, 256), torch.rand(half, 256)]",
    )
    sizes, facts = reduced_facts(source)
    assert "half" not in sizes
    assert facts["output"]["shape"][0] == sizes["rows"] // 2


def test_own_sizes_win():
    source = program("rows = 4096\nwidth = 4096", "return x[0] * 2", "[torch.rand(rows, width)]")
    source += "REDUCED = {'rows': 7, 'width': 5}\n"
    result = reduce_sizes(source)
    assert (result["ok"], result["reduced"], result["input_elements"]) == (True, {"rows": 7, "width": 5}, 35)


def test_own_sizes_that_do_not_work_are_told():
    source = program(
        "rows = 4096", "return self.linear(*x)", "[torch.rand(8, rows)]", "self.linear = nn.Linear(4096, 4)"
    )
    result = reduce_sizes(source + "REDUCED = {'rows': 16}\n")
    assert (result["ok"], result["reduced"]) == (False, {})
    assert "Model.forward(*get_inputs()) fails" in result["reason"]
    with pytest.raises(ProblemError, match="no module-level number 'cols'"):
        reduce_sizes(source + "REDUCED = {'cols': 16}\n")


def test_small_problems_are_left_alone():
    result = reduce_sizes(program("rows = 16", "return x[0] * 2", "[torch.rand(rows, 16)]"))
    assert (result["ok"], result["reduced"], result["reason"]) == (True, {}, "the full sizes are small enough")


def test_programs_that_need_values():
    source = program("rows = 2**20\nwidth = 64", "return x[0] * x[0].max().item()", "[torch.rand(rows, width)]")
    sizes, _ = reduced_facts(source)
    assert sizes["rows"] < 2**20


def test_no_way_is_told_with_the_reason():
    fixed = program("a = 1", "return x[0] + 1", "[torch.rand(7**4, 7**4, 7)]")
    result = reduce_sizes(fixed)
    assert (result["ok"], result["reduced"]) == (False, {})
    assert "too large for a CPU" in result["reason"]

    broken = program("rows = 4096", "return x[0] @ x[0]", "[torch.rand(rows, 3 * rows)]")
    result = reduce_sizes(broken)
    assert (result["ok"], result["reduced"]) == (False, {})
    assert "Model.forward(*get_inputs()) fails" in result["reason"]
    assert "\n" not in result["reason"]
