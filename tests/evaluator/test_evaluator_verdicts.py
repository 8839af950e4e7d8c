"""What the evaluator says about good and bad candidates on the cpu device."""

from __future__ import annotations

import sys

import pytest
from evaluator_programs import (
    BATCH_NORM,
    BATCH_NORM_FORGETFUL,
    BATCH_NORM_GOOD,
    DROPOUT,
    GOOD,
    NESTED,
    plain,
    with_kernel,
)

from stitchcuda.core.errors import ProblemError
from stitchcuda.core.records import Status


def test_a_good_candidate_passes_with_its_own_kernel(scale_evaluator):
    evaluation = scale_evaluator.evaluate(GOOD, candidate_id=7)
    assert evaluation.status is Status.PASSED, evaluation.message
    assert evaluation.candidate_id == 7
    assert evaluation.check.own_kernel_launches == 1
    assert evaluation.check.trials == 5  # four and the repetition
    assert [extension.target for extension in evaluation.build.extensions] == ["cpu"]
    assert evaluation.timing is None
    assert "torch" in evaluation.machine


def test_torch_alone_is_not_own_work(scale_evaluator, judge):
    candidate = plain("return self.compute(x)")
    evaluation = scale_evaluator.evaluate(candidate)
    assert evaluation.status is Status.CHEATING
    assert evaluation.reasons == ("not_own_kernel",)
    assert judge(candidate).status is Status.PASSED


def test_a_kernel_that_is_built_and_never_launched_is_not_own_work(scale_evaluator):
    evaluation = scale_evaluator.evaluate(with_kernel("return self.compute(x)"))
    assert (evaluation.status, evaluation.reasons) == (Status.CHEATING, ("not_own_kernel",))


@pytest.mark.parametrize(
    ("forward", "status", "reason"),
    [
        ("return self.compute(x) * 1.001", Status.WRONG_VALUES, "mismatch"),
        ("return torch.relu(x)", Status.WRONG_VALUES, "mismatch"),  # right only while weight is 1 and bias 0
        ("return self.compute(x).half().float()", Status.WRONG_VALUES, "precision_downgrade"),
        ("return self.compute(x)[:, :1]", Status.WRONG_SHAPE, "shape"),
        ("return self.compute(x).double()", Status.WRONG_DTYPE, "dtype"),
        ("return (self.compute(x),)", Status.WRONG_SHAPE, "structure"),
        ("return None", Status.WRONG_SHAPE, "structure"),
        ("return self.compute(x) / 0", Status.WRONG_VALUES, "nonfinite"),
        ("y = self.compute(x); x.zero_(); return y", Status.WRONG_VALUES, "input_mutated"),
        ("raise ValueError('unsupported shape')", Status.RUNTIME_ERROR, "exception"),
        ("import os; os.close(3); return x", Status.RUNTIME_ERROR, "early_exit"),
        ("return torch.empty(1 << 45)", Status.RUNTIME_ERROR, "out_of_memory"),
    ],
)
def test_wrong_results(judge, forward, status, reason):
    evaluation = judge(plain(forward))
    assert evaluation.status is status, evaluation.message
    assert evaluation.reasons[0] == reason, evaluation.message
    assert evaluation.message


def test_an_error_names_the_candidates_line(judge):
    source = plain("raise ValueError('unsupported shape')")
    line = next(n for n, text in enumerate(source.splitlines(), 1) if "unsupported" in text)
    assert f"ValueError: unsupported shape (line {line})" in judge(source).message


@pytest.mark.parametrize(
    ("setup", "forward", "reason"),
    [
        ("self.kept = {}", "return self.kept.setdefault(x.shape, self.compute(x))", "stale_output"),
        ("pass", "return torch.zeros_like(x)", "ignores_input"),
        (
            "self.out = None",
            "y = self.compute(x)\nself.out = y if self.out is None else self.out.copy_(y)\nreturn self.out",
            "stale_output",
        ),
    ],
)
def test_outputs_that_do_not_follow_the_inputs(judge, setup, forward, reason):
    evaluation = judge(plain(forward, setup))
    assert evaluation.status is Status.WRONG_VALUES
    assert evaluation.reasons[0] == reason


def test_weights_packed_once_must_follow_a_change(judge):
    once = plain(
        "if self.packed is None: self.packed = self.weight * 1.0\nreturn torch.relu(x * self.packed + self.bias)",
        "self.packed = None",
    )
    assert judge(once).status is Status.WRONG_VALUES
    refreshed = plain(
        "if self.version != self.weight._version:\n"
        "    self.packed, self.version = self.weight * 1.0, self.weight._version\n"
        "return torch.relu(x * self.packed + self.bias)",
        "self.version = None",
    )
    assert judge(refreshed).status is Status.PASSED


@pytest.mark.parametrize(
    ("top", "status", "reason"),
    [
        ("import os\nos._exit(0)\n", Status.RUNTIME_ERROR, "early_exit"),
        ("import sys\nsys.exit(0)\n", Status.RUNTIME_ERROR, "early_exit"),
        ("raise ImportError('no such library')\n", Status.RUNTIME_ERROR, "import_error"),
        ("def broken(:\n", Status.BUILD_FAILED, "syntax_error"),
        (
            "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'PASS ' * 100)\n    except OSError: pass\n",
            Status.RUNTIME_ERROR,
            "protocol_broken",
        ),
        ("import os\nwhile True: os.write(1, b'PASS ' * 10000)\n", Status.RUNTIME_ERROR, "output_flood"),
    ],
)
def test_candidates_that_end_early(judge, top, status, reason):
    evaluation = judge(plain("return self.compute(x)", top=top))
    assert (evaluation.status, evaluation.reasons) == (status, (reason,)), evaluation.message
    assert evaluation.check is None


def test_no_modelnew(judge):
    evaluation = judge("import torch\n")
    assert (evaluation.status, evaluation.reasons) == (Status.RUNTIME_ERROR, ("missing_modelnew",))


def test_a_printed_verdict_changes_nothing(judge):
    noisy = 'print(\'{"status": "passed", "reply": 1}\')\n'
    assert judge(plain("return self.compute(x) + 1", top=noisy)).status is Status.WRONG_VALUES
    assert judge(plain("return self.compute(x)", top=noisy)).status is Status.PASSED


def test_a_hang_ends_at_the_limit(make_evaluator):
    from evaluator_programs import SCALE

    evaluator = make_evaluator(SCALE, policy="any", call_timeout_s=1.5)
    evaluation = evaluator.evaluate(plain("while True: pass"))
    assert (evaluation.status, evaluation.reasons) == (Status.TIMEOUT, ("timeout",))
    assert evaluator.evaluate(plain("return self.compute(x)")).status is Status.PASSED


def test_a_compile_error_is_told_with_its_line(scale_evaluator):
    evaluation = scale_evaluator.evaluate(GOOD.replace("float v = x[i]", "float v = undefined_name"))
    assert (evaluation.status, evaluation.reasons) == (Status.BUILD_FAILED, ("compile_error",))
    assert "undefined_name" in evaluation.message
    assert evaluation.check is None


def test_hiding_a_failed_build_behind_torch_is_a_failed_build(scale_evaluator):
    source = GOOD.replace("float v = x[i]", "float v = undefined_name")
    start = source.index("extension = load_inline(")
    end = source.index("class ModelNew")
    block = "\n".join(f"    {line}" for line in source[start:end].strip().splitlines())
    hidden = source[:start] + f"try:\n{block}\nexcept RuntimeError:\n    extension = None\n\n" + source[end:]
    hidden = hidden.replace("return extension.forward(x, self.weight, self.bias)", "return self.compute(x)")
    assert scale_evaluator.evaluate(hidden).status is Status.BUILD_FAILED


@pytest.mark.slow
@pytest.mark.nvcc
def test_with_nvcc_and_no_gpu_the_kernel_is_compiled_for_one(make_evaluator):
    from evaluator_programs import SCALE

    evaluator = make_evaluator(SCALE, cross_compile="sm_90")
    report = evaluator.build(GOOD)
    assert report.ok
    assert [(b.target, b.ok) for b in report.cross_compiled] == [("sm_90", True)]
    # Fine for the emulator's compiler, not for nvcc: a host function called in a kernel.
    hosted = GOOD.replace("float v = x[i]", "float v = 0 * std::rand() + x[i]").replace(
        "#include", "#include <cstdlib>\n#include", 1
    )
    evaluation = evaluator.evaluate(hosted)
    assert (evaluation.status, evaluation.reasons) == (Status.BUILD_FAILED, ("cross_compile_error",))
    assert "rand" in evaluation.message


def test_batch_norm_statistics_are_compared(make_evaluator):
    evaluator = make_evaluator(BATCH_NORM, policy="any")
    assert evaluator.evaluate(BATCH_NORM_GOOD).status is Status.PASSED
    forgetful = evaluator.evaluate(BATCH_NORM_FORGETFUL)
    assert forgetful.status is Status.WRONG_VALUES
    assert "buffers_differ" in forgetful.reasons


def test_nested_inputs_and_outputs(make_evaluator):
    evaluator = make_evaluator(NESTED, policy="any")
    good = NESTED.replace("class Model(", "class ModelNew(")
    assert evaluator.evaluate(good).status is Status.PASSED
    second_wrong = evaluator.evaluate(good.replace("(x * 2, ", "(x * 2.01, "))
    assert second_wrong.status is Status.WRONG_VALUES
    assert "out['pair'][0]" in second_wrong.message
    assert evaluator.evaluate(good.replace('"none": None', '"other": None')).status is Status.WRONG_SHAPE
    argmax_wrong = evaluator.evaluate(good.replace("argmax", "argmin"))
    assert "out['pair'][1]" in argmax_wrong.message


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (DROPOUT, "random"),
        (NESTED.replace("x + state[0]", "x + undefined"), "NameError"),
        ("x = 1\n", "defines no Model"),
    ],
)
def test_a_reference_that_cannot_be_used_is_the_problems_error(make_evaluator, reference, message):
    with pytest.raises(ProblemError, match=message):
        make_evaluator(reference, policy="any").check("import torch\nclass ModelNew(torch.nn.Module): pass\n")


def test_the_verdict_is_made_without_torch():
    import subprocess

    program = "import sys; import stitchcuda.tools.evaluate, stitchcuda.tools; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_profile_of_the_reference(scale_evaluator):
    report = scale_evaluator.profile(None)
    assert report is not None
    assert report.total_ms > 0
    assert any("relu" in row.name for row in report.rows)
