"""The pure parts: statistics, verdict tables, static rules, names, and bytes from a hostile worker."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from evaluator_programs import GOOD, plain

from stitchcuda.core.records import (
    BuildReport,
    CheckReport,
    Diagnostic,
    ExtensionBuild,
    Finding,
    ScreenReport,
    Status,
    TimingReport,
)
from stitchcuda.tools import EvaluatorSettings, settle
from stitchcuda.tools.checks.weights import Slot, match_state
from stitchcuda.tools.screens.python_rules import screen_source
from stitchcuda.tools.timing.stats import ratio_interval, stats

# --- statistics -------------------------------------------------------------------------------------------------


def _rounds(median: float, noise: float, generator: random.Random, rounds: int = 12) -> list[list[float]]:
    return [[median * generator.lognormvariate(0, noise) for _ in range(10)] for _ in range(rounds)]


def test_the_interval_holds_the_true_ratio_about_as_often_as_it_says():
    generator = random.Random(1)
    inside = 0
    for seed in range(40):
        a, b = _rounds(3.0, 0.05, generator), _rounds(2.0, 0.05, generator)
        _, low, high = ratio_interval(a, b, seed=seed)
        inside += low <= 1.5 <= high
    assert inside >= 35


def test_the_interval_narrows_with_more_rounds_and_ignores_common_drift():
    generator = random.Random(2)
    few = ratio_interval(_rounds(2.0, 0.1, generator, 5), _rounds(1.0, 0.1, generator, 5))
    many = ratio_interval(_rounds(2.0, 0.1, generator, 40), _rounds(1.0, 0.1, generator, 40))
    assert many[2] - many[1] < few[2] - few[1]
    drift = [1.0 + 0.05 * i for i in range(20)]
    drifting = [[2.0 * d] * 5 for d in drift], [[1.0 * d] * 5 for d in drift]
    ratio, low, high = ratio_interval(*drifting)
    assert low <= ratio == 2.0 <= high


def test_quartiles_are_over_all_calls():
    found = stats([[1.0, 2.0], [3.0, 4.0, 5.0]])
    assert (found.median_ms, found.p25_ms, found.p75_ms, found.calls) == (3.0, 2.0, 4.0, 5)


def test_unequal_rounds_are_refused():
    with pytest.raises(ValueError, match="rounds"):
        ratio_interval([[1.0]], [[1.0], [2.0]])


# --- settle -----------------------------------------------------------------------------------------------------

_OK_BUILD = BuildReport(ok=True)
_OK_CHECK = CheckReport(ok=True, status=Status.PASSED)
_TIMING = TimingReport(candidate=stats([[1.0]]), baselines=(), rounds=1)


def _extension(ok: bool, target: str = "cpu") -> ExtensionBuild:
    diagnostics = () if ok else (Diagnostic(severity="error", message="no such name", file="x.cu", line=4),)
    return ExtensionBuild(name="x", ok=ok, target=target, diagnostics=diagnostics)


@pytest.mark.parametrize(
    ("reports", "status", "reasons"),
    [
        ({"build": BuildReport(ok=False, extensions=(_extension(False),))}, "build_failed", ("compile_error",)),
        (
            {"build": BuildReport(ok=False, cross_compiled=(_extension(False, "sm_90"),))},
            "build_failed",
            ("cross_compile_error",),
        ),
        ({"build": BuildReport(ok=False, error="timeout: no answer")}, "timeout", ("timeout",)),
        ({"build": BuildReport(ok=False, error="syntax_error: bad")}, "build_failed", ("syntax_error",)),
        ({"build": BuildReport(ok=False, error="early_exit: code 0")}, "runtime_error", ("early_exit",)),
        (
            {
                "build": _OK_BUILD,
                "screen": ScreenReport(
                    findings=(
                        Finding(rule="torch_compute", severity="warn", message="relu"),
                        Finding(rule="harness_tamper", severity="block", message="replaces time.time", line=3),
                    )
                ),
            },
            "cheating",
            ("harness_tamper",),
        ),
        (
            {
                "build": _OK_BUILD,
                "screen": ScreenReport(),
                "check": CheckReport(ok=False, status=Status.WRONG_SHAPE, reasons=("shape",)),
            },
            "wrong_shape",
            ("shape",),
        ),
        (
            {
                "build": _OK_BUILD,
                "check": _OK_CHECK,
                "timing": CheckReport(ok=False, status=Status.CHEATING, reasons=("timing_disagreement",)),
            },
            "cheating",
            ("timing_disagreement",),
        ),
        ({"build": _OK_BUILD, "check": _OK_CHECK, "timing": _TIMING}, "passed", ()),
    ],
)
def test_settle(reports, status, reasons):
    settings = EvaluatorSettings(device="cuda:0", cache_dir=Path("unused"))
    evaluation = settle(3, settings, "full", **reports)
    assert (evaluation.status.value, evaluation.reasons) == (status, reasons)
    assert (evaluation.timing is not None) == (status == "passed")
    if reasons == ("compile_error",):
        assert evaluation.message == "x.cu:4: no such name"


# --- screens ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("top", "rule"),
    [
        ("import os as o\nf = o._exit\n", "harness_tamper"),
        ("from sys import _getframe\n_getframe(1)\n", "harness_tamper"),
        ("import torch\ntorch.cuda.Event.elapsed_time = lambda *_: 0.001\n", "harness_tamper"),
        ("import torch\nsetattr(torch.cuda, 'Event', None)\n", "harness_tamper"),
        ("import time\ntime.perf_counter = lambda: 0\n", "harness_tamper"),
        ("import gc\nx = gc.get_objects()\n", "harness_tamper"),
        ("import sys\nm = sys.modules['__main__']\n", "harness_tamper"),
        ("open('/proc/self/environ').read()\n", "harness_tamper"),
        ("import ctypes\n", "foreign_library"),
        ("import socket\n", "network"),
    ],
)
def test_hostile_things_block(top, rule):
    report = screen_source(plain("return self.compute(x)", top=top))
    assert report.blocked
    assert rule in {finding.rule for finding in report.findings if finding.severity == "block"}


def test_honest_look_alikes_do_not_block():
    honest = plain(
        '"""Two-pass softmax; no fallback needed, os._exit is not called."""\n'
        "try:\n    import triton  # optional, sys.modules is not touched\nexcept ImportError:\n    pass\n"
        "return self.compute(x).contiguous().view(-1)",
        top="import os\nimport time\nfrom time import perf_counter\nload_inline = None\nNAME = 'ctypes.CDLL'\n",
    )
    assert not screen_source(honest).blocked
    assert not screen_source(GOOD).findings


def test_torch_compute_in_forward_is_a_lead_with_its_line():
    source = plain("import torch.nn.functional as F\nreturn F.softmax(x @ x.T, -1)")
    findings = screen_source(source).findings
    assert {finding.severity for finding in findings} == {"warn"}
    assert any("softmax" in finding.message for finding in findings)
    assert all("F.softmax" in source.splitlines()[finding.line - 1] for finding in findings)


# --- names and weights ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("_Z10act_kernelPKfPfl", "act_kernel"),
        ("_ZN3foo8add_rowsIfLi4EEEvPKfPfi", "add_rows"),
        ("_ZN57_GLOBAL__N__0123456_4_x_cu_0123456789012345678901234567897softmaxEPf", "softmax"),
        ("void foo::add_rows<float, 4>(float const*, float*, int)", "add_rows"),
        ("(anonymous namespace)::softmax(float*)", "softmax"),
        ("void (anonymous namespace)::softmax<std::array<int, 2> >(float*, std::array<int, 2>)", "softmax"),
        ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
    ],
)
def test_kernel_names(name, base):
    from stitchcuda.tools.checks.kernel_names import kernel_base_name

    assert kernel_base_name(name) == base


def test_how_weights_correspond():
    weight, bias = Slot("lin.weight", "parameter", (4, 3)), Slot("lin.bias", "parameter", (4,))
    packed = Slot("packed", "buffer", (3, 4))
    assert match_state([weight, bias], [weight, bias, packed]).how == "by_name"
    renamed = [Slot("w", "parameter", (4, 3)), Slot("b", "parameter", (4,))]
    assert match_state([weight, bias], renamed).names == {"lin.weight": "w", "lin.bias": "b"}
    assert match_state([weight, bias], [packed]).how == "same_seed"
    assert match_state([], [packed]).how == "none"


# --- bytes ------------------------------------------------------------------------------------------------------


def test_values_survive_the_passage():
    torch = pytest.importorskip("torch")
    import os

    from stitchcuda.tools.sandbox.tensors import pack, unpack

    value = {
        "a": (torch.randn(3, 0, 2), torch.tensor(2.5, dtype=torch.bfloat16), [torch.arange(6).reshape(2, 3).T]),
        "b": [True, None, 3, "text", float("inf"), torch.float16],
    }
    tree, descriptors = pack(value)
    back = unpack(tree, descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    assert back["b"] == value["b"]
    for ours, theirs in zip((*value["a"][:2], value["a"][2][0]), (*back["a"][:2], back["a"][2][0]), strict=True):
        assert ours.dtype == theirs.dtype
        assert torch.equal(ours, theirs)


def _tamper(change):
    def apply(tree):
        change(tree["items"][0])

    return apply


@pytest.mark.parametrize(
    "change",
    [
        _tamper(lambda leaf: leaf.update(shape=[1 << 40])),
        _tamper(lambda leaf: leaf.update(shape=[-4])),
        _tamper(lambda leaf: leaf.update(dtype="complex32")),
        _tamper(lambda leaf: leaf.update(parts=[[0, 1 << 20, 16]])),
        _tamper(lambda leaf: leaf.update(parts=[[7, 0, 16]])),
        _tamper(lambda leaf: leaf.update(parts="x")),
        _tamper(lambda leaf: leaf.clear()),
        lambda tree: tree.update(t="pickle"),
        lambda tree: tree.update(items=5),
    ],
)
def test_a_malformed_tree_is_refused(change):
    torch = pytest.importorskip("torch")
    import os

    from stitchcuda.tools.sandbox.tensors import pack, unpack

    tree, descriptors = pack((torch.ones(4),))
    change(tree)
    with pytest.raises(ValueError):
        unpack(tree, descriptors)
    os.close(descriptors[0])


def test_bytes_that_can_still_change_are_refused():
    pytest.importorskip("torch")
    import os

    from stitchcuda.tools.sandbox.memory import is_sealed, new_memory_file
    from stitchcuda.tools.sandbox.tensors import unpack

    descriptor = new_memory_file()
    os.write(descriptor, b"0" * 64)
    assert not is_sealed(descriptor)
    tree = {"t": "tensor", "dtype": "float32", "shape": [4], "device": "cpu", "parts": [[0, 0, 16]]}
    with pytest.raises(ValueError, match="sealed"):
        unpack(tree, [descriptor])
    os.close(descriptor)


@pytest.mark.slow
def test_a_large_output_needs_little_more_memory_than_itself_to_be_compared():
    from stitchcuda.tools import run_isolated

    elements = 1 << 26
    found = run_isolated("isolated_targets:compare_a_large_output", {"elements": elements}, 120)
    assert (found["mismatched"], found["total"]) == (1, elements)
    assert found["extra_bytes"] < 4 * elements
