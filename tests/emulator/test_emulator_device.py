"""Candidate Python written for CUDA, run on CPU tensors: as a module that is neither torch's nor ours."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture
def run() -> Iterator[Any]:
    from stitchcuda.tools.emulator.device import cuda_on_cpu

    def execute(source: str) -> dict[str, Any]:
        module = types.ModuleType("candidate")
        exec(compile(source, "candidate.py", "exec"), module.__dict__)
        return module.__dict__

    with cuda_on_cpu():
        yield execute


def test_a_module_written_for_cuda(run: Any) -> None:
    names = run("""
import torch, torch.nn as nn
class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3, device="cuda")
        self.register_buffer("scale", torch.full((3,), 2.0, device=torch.device("cuda:0")))
    def forward(self, x):
        assert x.is_cuda and not x.is_cpu and x.device.type == "cuda" and x.get_device() == 0
        if x.device != self.linear.weight.device:
            raise RuntimeError("devices differ")
        torch.cuda.set_device(x.device)
        with torch.cuda.device(x.device), torch.cuda.stream(torch.cuda.Stream()):
            out = torch.empty(x.shape[0], 3, device=x.device, dtype=x.dtype)
            out.copy_(self.linear(x) * self.scale.to("cuda", non_blocking=True))
        x.record_stream(torch.cuda.current_stream())
        torch.cuda.synchronize()
        return out
model = ModelNew().cuda().to("cuda:0").to(0)
y = model(torch.ones(2, 4).cuda())
""")
    y, model = names["y"], names["model"]
    expected = torch.nn.functional.linear(torch.ones(2, 4), model.linear.weight, model.linear.bias) * 2
    assert torch.equal(y, expected)
    # we are no candidate here only by name: the tensors really lie on the CPU
    assert torch.empty(0).untyped_storage().device.type == "cpu"
    assert y.detach().numpy().shape == (2, 3)


def test_factories_with_every_way_to_say_cuda(run: Any) -> None:
    names = run("""
import torch
d = torch.device("cuda")
one, generator = torch.ones(2), torch.Generator(device="cuda").manual_seed(1)
made = [torch.zeros(2, device="cuda"), torch.randn(2, device=d), torch.arange(3, device="cuda:0"),
        torch.tensor([1], device=d), torch.as_tensor([1.0], device="cuda"), one.to("cuda"), one.to(d, torch.float64),
        one.to(device="cuda"), one.new_zeros(2, device=d), torch.empty_like(one, device="cuda"),
        torch.rand(2, generator=generator, device="cuda"), one.pin_memory()]
with torch.device("cuda"):
    made.append(torch.ones(3))
""")
    assert len(names["made"]) == 13
    assert all(tensor.untyped_storage().device.type == "cpu" for tensor in names["made"])


def test_torch_cuda_answers_as_a_device(run: Any) -> None:
    names = run("""
import torch
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record(); end.record(); torch.cuda.synchronize(); elapsed = start.elapsed_time(end)
available, count = torch.cuda.is_available(), torch.cuda.device_count()
properties = torch.cuda.get_device_properties(0)
capability = torch.cuda.get_device_capability()
stream = torch.cuda.current_stream().cuda_stream
torch.cuda.empty_cache(); torch.cuda.manual_seed_all(3); torch.manual_seed(3)
""")
    assert names["available"] is True
    assert names["count"] == 1
    assert names["elapsed"] >= 0
    assert names["properties"].multi_processor_count == 1
    assert names["capability"] == (9, 0)
    assert names["stream"] == 0


def test_torch_itself_still_knows_that_there_is_no_cuda(run: Any) -> None:
    names = run("""
import torch
with torch.random.fork_rng():
    torch.rand(3)
lstm = torch.nn.LSTM(3, 4).cuda()
y, _ = lstm(torch.ones(2, 1, 3, device="cuda"))
attention = torch.nn.MultiheadAttention(4, 2).cuda().eval()
z, _ = attention(y, y, y)
y.sum().backward()
""")
    assert names["z"].shape == (2, 1, 4)
    assert names["lstm"].weight_ih_l0.grad is not None


def test_everything_is_put_back() -> None:
    from stitchcuda.tools.emulator.device import cuda_on_cpu

    before = {name: getattr(torch.cuda, name) for name in ("is_available", "Stream", "synchronize", "device")}
    with cuda_on_cpu():
        assert torch.cuda.Stream is not before["Stream"]
    assert {name: getattr(torch.cuda, name) for name in before} == before
    assert torch.ones(1).device.type == "cpu"
