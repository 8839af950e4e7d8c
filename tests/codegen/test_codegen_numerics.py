"""Emitted candidates, really built and run on the cpu device, against PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from codegen_programs import PROGRAMS, reference_module, source_of

from stitchcuda.codegen import Trace, open_workspace

NETWORK = '''
import torch
import torch.nn as nn

width = 12


class Block(nn.Module):
    """A helper class that the candidate keeps."""

    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)) + x)


class Model(nn.Module):
    """A small network."""

    def __init__(self, channels, classes=5):
        super(Model, self).__init__()
        self.blocks = nn.Sequential(Block(channels), Block(channels))
        self.gate = nn.Parameter(torch.rand(channels, 1, 1))
        self.register_buffer("shift", torch.rand(channels, 1, 1))
        self.gru = nn.GRU(width, 6, batch_first=True)
        self.head = nn.Linear(6, classes)

    def forward(self, x: torch.Tensor, scale=2.0) -> torch.Tensor:
        x = self.blocks(x) * torch.sigmoid(self.gate) + self.shift
        first, second = x.flatten(2).transpose(1, 2).reshape(x.shape[0], -1, width).chunk(2, dim=0)
        y, _ = self.gru(torch.cat([first, second]))
        y = self.head(y[:, -1]) * scale + torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
        return {"scores": torch.softmax(y, dim=-1), "all": [x, None]}


def get_inputs():
    return [torch.randn(2, 4, 6, 6)]


def get_init_inputs():
    return [4]
'''


def tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in tensors(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in tensors(item)]
    return [value] if isinstance(value, torch.Tensor) else []


def assert_same(new: Any, old: Any, state: dict[str, torch.Tensor], inputs: list[torch.Tensor]) -> None:
    """Same results and the same buffers afterwards."""
    old.load_state_dict(state)
    new.load_state_dict(state)
    with torch.no_grad():
        expected = tensors(old(*copy.deepcopy(inputs)))
        given = copy.deepcopy(inputs)
        results = tensors(new(*given))
    assert len(results) == len(expected)
    for position, (result, golden) in enumerate(zip(results, expected, strict=True)):
        assert result.dtype == golden.dtype, position
        close = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2}.get(golden.dtype, 2e-5)
        torch.testing.assert_close(
            result, golden, rtol=close, atol=close, equal_nan=True, msg=lambda m, p=position: f"{p}: {m}"
        )
    torch.testing.assert_close(list(new.state_dict().values()), list(old.state_dict().values()))
    torch.testing.assert_close(given, inputs)


@pytest.fixture(scope="module")
def built(trace_of: Callable[[str], Trace], load_candidate: Callable[[str], Any]) -> tuple[Any, Any]:
    source = source_of(list(PROGRAMS))
    workspace = open_workspace(source, trace_of(source))
    # The row schedules that are not the default are exercised beside it.
    choices = {
        group.id: "block=128 vec=2 items=2 rows=block"
        for group in workspace.groups
        if group.kind == "row" and int(group.id[1:]) % 2
    }
    candidate = load_candidate(workspace.emit([group.id for group in workspace.groups], choices))
    return reference_module(source), candidate


def test_programs_agree_with_pytorch(built: tuple[Any, Any]) -> None:
    reference, candidate = built
    torch.manual_seed(3)
    inputs = reference.get_inputs()
    assert_same(candidate.ModelNew(), reference.Model(), {}, inputs)
    # Other contents, and values that overflow exp in a softmax without a running maximum.
    large = [value * 90.0 if value.dtype is torch.float32 else value for value in reference.get_inputs()]
    assert_same(candidate.ModelNew(), reference.Model(), {}, large)


def test_non_contiguous_and_misaligned_inputs(built: tuple[Any, Any]) -> None:
    reference, candidate = built
    inputs = []
    for value in reference.get_inputs():
        wide = torch.zeros((*value.shape[:-1], value.shape[-1] + 1), dtype=value.dtype)
        wide[..., 1:] = value
        inputs.append(wide[..., 1:])
    assert_same(candidate.ModelNew(), reference.Model(), {}, inputs)


def test_wrong_dtype_is_refused_in_words(built: tuple[Any, Any]) -> None:
    reference, candidate = built
    inputs = [value.double() if value.dtype is torch.float32 else value for value in reference.get_inputs()]
    with pytest.raises(RuntimeError, match="another dtype than this kernel was written for"):
        candidate.ModelNew()(*inputs)


def test_network_keeps_weights_buffers_and_structure(
    trace_of: Callable[[str], Trace], load_candidate: Callable[[str], Any]
) -> None:
    workspace = open_workspace(NETWORK, trace_of(NETWORK))
    text = workspace.emit([group.id for group in workspace.groups], {})
    assert "class Block(nn.Module):" in text
    assert "super(ModelNew, self).__init__()" in text
    reference, candidate = reference_module(NETWORK), load_candidate(text)
    torch.manual_seed(0)
    old, new = reference.Model(4), candidate.ModelNew(4)
    assert_same(new, old, {key: value.clone() for key, value in old.state_dict().items()}, reference.get_inputs())
    assert int(new.state_dict()["blocks.0.norm.num_batches_tracked"]) == 1


def test_leftover_calls_alone_agree_with_pytorch(trace_of: Callable[[str], Trace]) -> None:
    source = source_of(list(PROGRAMS))
    for text, arguments in ((source, []), (NETWORK, [4])):
        candidate = reference_module(open_workspace(text, trace_of(text)).emit([], {}))
        reference = reference_module(text)
        torch.manual_seed(0)
        old, new = reference.Model(*arguments), candidate.ModelNew(*arguments)
        assert_same(new, old, {key: value.clone() for key, value in old.state_dict().items()}, reference.get_inputs())
