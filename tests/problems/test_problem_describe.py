"""What is said about a problem, and the one line when it does not work."""

from __future__ import annotations

import json
import re
import time

import pytest

from stitchcuda.core.errors import ProblemError
from stitchcuda.problems.describe import describe

BASE = """\
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, 2 * width)
        self.norm = nn.BatchNorm1d(2 * width)

    def forward(self, x):
        return self.norm(self.linear(x))

def get_inputs():
    return [torch.rand(5, 8)]

def get_init_inputs():
    return [8]
"""


def changed(before: str, after: str) -> str:
    assert before in BASE
    return BASE.replace(before, after)


def test_facts_are_json_and_right():
    facts = json.loads(json.dumps(describe(BASE)))
    assert facts["inputs"] == [{"kind": "tensor", "shape": [5, 8], "dtype": "float32", "stride": [8, 1], "bytes": 160}]
    assert facts["init_inputs"] == ["8"]
    assert facts["parameter_count"] == 8 * 16 + 16 + 32
    assert facts["parameter_bytes"] == 4 * facts["parameter_count"]
    assert facts["parameters"][0] == {"name": "linear.weight", "shape": [16, 8], "dtype": "float32"}
    assert [buffer["name"] for buffer in facts["buffers"]] == [
        "norm.running_mean",
        "norm.running_var",
        "norm.num_batches_tracked",
    ]
    assert facts["training"] is True
    assert (facts["input_elements"], facts["input_bytes"]) == (40, 160)
    assert facts["output"]["shape"] == [5, 16]
    assert facts["output_note"] == ""


def test_an_evaluated_model_is_seen():
    source = changed("self.norm = nn.BatchNorm1d(2 * width)", "self.norm = nn.BatchNorm1d(2 * width); self.eval()")
    assert describe(source)["training"] is False


def test_full_sizes_take_no_memory():
    huge = changed("torch.rand(5, 8)", "torch.rand(2**33, 8)")
    facts = describe(huge)
    assert facts["input_bytes"] == 2**33 * 8 * 4
    assert facts["output"]["shape"] == [2**33, 16]


def test_nested_inputs_and_outputs():
    source = changed("return self.norm(self.linear(x))", "return {'y': (self.linear(x['a'][0]), x['n'])}").replace(
        "[torch.rand(5, 8)]", "[{'a': (torch.rand(3, 8),), 'n': 7}]"
    )
    facts = describe(source)
    assert facts["inputs"][0]["items"]["a"]["items"][0]["shape"] == [3, 8]
    assert facts["inputs"][0]["items"]["n"] == {"kind": "int", "repr": "7"}
    assert facts["output"]["items"]["y"]["kind"] == "tuple"
    assert facts["output"]["items"]["y"]["items"][0]["shape"] == [3, 16]


def test_programs_that_need_values_are_run_when_small():
    steers = changed("return self.norm(self.linear(x))", "return x[:2] if x.sum() > -1 else x")
    assert describe(steers)["output"]["shape"] == [2, 8]
    large = steers.replace("torch.rand(5, 8)", "torch.rand(2**33, 8)")
    facts = describe(large)
    assert facts["output"] is None
    assert facts["output_note"].startswith("not run: the program needs real values")


def test_constructors_that_need_values():
    source = changed(
        "super().__init__()", "super().__init__(); self.rates = [r.item() for r in torch.linspace(0, 1, 3)]"
    )
    assert describe(source)["output"]["shape"] == [5, 16]


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layer", ["GRU", "RNN", "LSTM"])
def test_long_recurrent_layers_are_described_at_once(layer, bidirectional, batch_first):
    source = (
        "import torch\n"
        "class Model(torch.nn.Module):\n"
        "    def __init__(self, *sizes):\n"
        "        super().__init__()\n"
        f"        options = dict(bidirectional={bidirectional}, batch_first={batch_first})\n"
        f"        self.layer = torch.nn.{layer}(*sizes, **options)\n"
        "    def forward(self, x):\n"
        "        return self.layer(x)\n"
        "def get_inputs():\n"
        "    return [torch.rand(SHAPE)]\n"
        "def get_init_inputs():\n"
        "    return [8, 12, 2]\n"
    )
    namespace: dict = {}
    exec(source.replace("SHAPE", "5, 3, 8"), namespace)
    output, state = namespace["Model"](8, 12, 2)(*namespace["get_inputs"]())
    small = describe(source.replace("SHAPE", "5, 3, 8"))["output"]["items"]
    assert (small[0]["shape"], small[0]["stride"]) == (list(output.shape), list(output.stride()))
    last, told = (state[0], small[1]["items"][0]) if layer == "LSTM" else (state, small[1])
    assert told["shape"] == list(last.shape)

    started = time.perf_counter()
    assert describe(source.replace("SHAPE", "5000, 3000, 8"))["output"]["items"][0]["shape"][:2] == [5000, 3000]
    assert time.perf_counter() - started < 5


def test_numpy_inputs():
    source = changed("torch.rand(5, 8)", "torch.from_numpy(__import__('numpy').ones((5, 8), dtype='float32'))")
    assert describe(source)["output"]["shape"] == [5, 16]


def test_get_init_inputs_may_be_missing():
    source = BASE.split("def get_init_inputs")[0].replace("(self, width)", "(self, width=8)")
    assert describe(source)["init_inputs"] == []


BAD = {
    "inputs_raise": (
        ("return [torch.rand(5, 8)]", "raise OSError('disk\\nis full')"),
        r"get_inputs\(\) fails on line 14: OSError: disk is full; ",
    ),
    "inputs_no_list": (("return [torch.rand(5, 8)]", "return torch.rand(5, 8)"), "get_inputs.. returns a Tensor"),
    "arguments_raise": (("return [8]", "return [1 // 0]"), "get_init_inputs.. fails on line 17: ZeroDivisionError"),
    "arguments_do_not_fit": (
        ("return [8]", "return [8, 9]"),
        "Model.*get_init_inputs.* fails: TypeError: .*positional",
    ),
    "model_fails": (("nn.Linear(width, 2 * width)", "nn.Linear(width, -1)"), "Model.* fails on line 7: RuntimeError"),
    "forward_fails": (
        ("torch.rand(5, 8)", "torch.rand(5, 9)"),
        "Model.forward.* fails on line 11: RuntimeError: .*shapes",
    ),
    "no_module": (("Model(nn.Module)", "Model"), "Model is a class that is no torch.nn.Module .object."),
    "no_class": (("class Model(nn.Module)", "Model = 3\nclass Other(nn.Module)"), "Model is 3; derive it"),
    "missing_package": (
        ("import torch\n", "import torch, no_such_package\n"),
        "the problem's file fails on line 1: Mod",
    ),
    "exits": (
        ("import torch\n", "import torch; raise SystemExit(3)\n"),
        "the problem's file fails on line 1: SystemExit",
    ),
    "syntax": (("import torch\n", "import\n"), "line 1, column 7: not valid Python"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_programs_get_one_clear_line(kind):
    (before, after), pattern = BAD[kind]
    with pytest.raises(ProblemError) as caught:
        describe(BASE.replace(before, after, 1))
    line = str(caught.value)
    assert re.search(pattern, line), line
    assert "\n" not in line
    assert len(line) < 400
