"""Each example is what its table says: it loads, describes at full size, and runs quickly at its small sizes."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
import torch

from stitchcuda.problems import Problem, load_folder
from stitchcuda.problems.describe import describe
from stitchcuda.problems.execution import execute, tensors_in
from stitchcuda.problems.measuring import Budget, measure

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = load_folder(FOLDER)


@pytest.fixture(params=EXAMPLES, ids=lambda problem: problem.name)
def example(request: pytest.FixtureRequest) -> Problem:
    return request.param


def test_there_are_enough_and_the_table_names_them_all():
    assert len(EXAMPLES) >= 10
    table = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\S+\.py)`", table, re.MULTILINE) == sorted(path.name for path in FOLDER.glob("*.py"))


def test_full_size_is_worth_timing_and_fits_a_gpu(example):
    facts = describe(example.source)
    assert facts["input_bytes"] <= 1_000_000_000
    assert facts["training"] is True
    assert facts["output"] is not None
    extent = measure(example.source, "forward")
    assert 4 * extent.activations >= 64e6 or extent.flops >= 1e9


def test_it_says_what_it_is_and_carries_small_sizes(example):
    assert example.source.startswith('"""')
    assert example.reduced


def test_small_sizes_run_at_once_on_the_cpu(example):
    small = example.at("reduced")
    extent = measure(small, "forward")
    assert extent.over(Budget()) == ()
    torch.manual_seed(0)
    program = execute(small)
    model = program.model(program.init_inputs())
    first = program.inputs()
    program.forward(model, first)
    started = time.perf_counter()
    outputs = list(tensors_in(program.forward(model, first)))
    assert time.perf_counter() - started < 1
    assert all(output.isfinite().all() for output in outputs)
    others = list(tensors_in(program.forward(model, program.inputs())))
    assert not any(torch.allclose(one, other) for one, other in zip(outputs, others, strict=True)), "constant output"


def test_forward_draws_no_random_numbers(example):
    program = execute(example.at("reduced"))
    model, inputs = program.model(program.init_inputs()), program.inputs()
    state = torch.random.get_rng_state()
    program.forward(model, inputs)
    assert torch.equal(state, torch.random.get_rng_state())


def test_small_sizes_keep_the_structure(example):
    assert measure(example.source, "forward").ops == measure(example.at("reduced"), "forward").ops
