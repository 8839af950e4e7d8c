"""What an evaluation costs, stage by stage; on a GPU also against KernelBench's own harness in the same run.

    python benchmarks/evaluate.py --quick
    python benchmarks/evaluate.py --device cuda:0 --kernelbench ~/KernelBench runs/mine/*

Without run folders two candidates of an own small problem are judged. A run folder has `reference.py` and `best.py`.
The build is not part of the comparison: ours is served from the store when the stages are timed again, and
KernelBench's is done by a call that is not timed. KernelBench's code is imported from the checkout; none of it is ours.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Literal

from stitchcuda.core.records import Status
from stitchcuda.tools import Evaluator, EvaluatorSettings

REFERENCE = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(256))

    def forward(self, x):
        return torch.relu(x * self.weight)


def get_inputs():
    return [torch.randn({rows}, 256)]


def get_init_inputs():
    return []
"""

CANDIDATE = '''
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>

__global__ void scale_relu(const float* x, const float* w, float* y, int n, int columns) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fmaxf(x[i] * w[i % columns], 0.0f);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w) {
  auto y = torch::empty_like(x);
  int n = x.numel();
  scale_relu<<<(n + 255) / 256, 256>>>(
      x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), n, (int)w.numel());
  return y;
}
"""

extension = load_inline(
    name="benchmark_scale_relu",
    cpp_sources="torch::Tensor forward(torch::Tensor x, torch::Tensor w);",
    cuda_sources=SOURCE,
    functions=["forward"],
)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(256))

    def forward(self, x):
        return extension.forward(x, self.weight)
'''

THEIRS = """
import importlib.util, json, sys, time, types
from pathlib import Path

checkout, reference, candidate, build_dir, trials, repeats = sys.argv[1:7]
sys.path.insert(0, str(Path(checkout, "src")))
if importlib.util.find_spec("litellm") is None:  # imported by its helpers for querying models; evaluation needs none
    sys.modules["litellm"] = types.ModuleType("litellm")
    sys.modules["litellm"].completion = None
from kernelbench.eval import eval_kernel_against_ref

seconds, correct = [], True
for _ in range(1 + int(repeats)):  # the first one builds
    started = time.perf_counter()
    result = eval_kernel_against_ref(
        Path(reference).read_text(),
        Path(candidate).read_text(),
        num_correct_trials=int(trials),
        num_perf_trials=100,
        measure_performance=True,
        build_dir=build_dir,
    )
    seconds.append(time.perf_counter() - started)
    correct = correct and bool(result.correctness)
print("RESULT " + json.dumps({"seconds": seconds[1:], "correct": correct}))
"""


def ours(reference: str, candidate: str, arguments: argparse.Namespace, cache_dir: Path) -> dict[str, Any]:
    """Seconds of each stage once everything is built, the median of some repeats, and of the first build."""
    settings = EvaluatorSettings(
        device=arguments.device,
        cache_dir=cache_dir,
        trials=arguments.trials,
        cross_compile=None,
        timing_budget_s=arguments.timing_budget_s,
    )
    sizes: Literal["reduced", "full"] = "reduced" if arguments.device == "cpu" else "full"
    with Evaluator(reference, settings, sizes=sizes) as evaluator:
        started = time.perf_counter()
        first = evaluator.evaluate(candidate)
        row: dict[str, Any] = {"status": first.status.value, "first_s": time.perf_counter() - started}
        if first.status is not Status.PASSED:
            return row | {"message": first.message}
        stages: dict[str, Any] = {"build": evaluator.build, "screen": evaluator.screen, "check": evaluator.check}
        if arguments.device != "cpu":
            stages |= {"time": evaluator.time, "profile": evaluator.profile}
        spent: dict[str, list[float]] = {name: [] for name in stages}
        for _ in range(arguments.repeats):
            for name, stage in stages.items():
                started = time.perf_counter()
                stage(candidate)
                spent[name].append(time.perf_counter() - started)
    row |= {f"{name}_s": statistics.median(seconds) for name, seconds in spent.items()}
    # A plain harness also imports the candidate, checks and times; what it lacks (a profile) is left out.
    row["compared_s"] = sum(row[f"{name}_s"] for name in stages if name != "profile")
    return row


def theirs(reference: Path, candidate: Path, arguments: argparse.Namespace, build_dir: Path) -> dict[str, Any]:
    command = [sys.executable, "-c", THEIRS, str(arguments.kernelbench), str(reference), str(candidate)]
    command += [str(build_dir), str(arguments.trials), str(arguments.repeats)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=arguments.timeout_s, check=False)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            told = json.loads(line.removeprefix("RESULT "))
            return {"kernelbench_s": statistics.median(told["seconds"]), "kernelbench_correct": told["correct"]}
    return {"kernelbench_error": (done.stderr or done.stdout)[-400:]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, help="run folders with reference.py and best.py")
    parser.add_argument("--device", default="cpu", help="cpu or cuda:N")
    parser.add_argument("--kernelbench", type=Path, help="a KernelBench checkout (GPU only)")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--timing-budget-s", type=float, default=2.0)
    parser.add_argument("--timeout-s", type=float, default=580)
    parser.add_argument("--quick", action="store_true", help="one repeat")
    parser.add_argument("--json", action="store_true", help="rows as one JSON list on stdout")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.repeats = 1
    if arguments.kernelbench and arguments.device == "cpu":
        parser.error("KernelBench's harness needs a GPU: --device cuda:N")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder, "own")
        own.mkdir()
        (own / "reference.py").write_text(REFERENCE.replace("{rows}", "64" if arguments.device == "cpu" else "65536"))
        (own / "best.py").write_text(CANDIDATE)
        for number, run in enumerate(arguments.runs or [own]):
            reference, candidate = run / "reference.py", run / "best.py"
            row = {"run": run.name, **ours(reference.read_text(), candidate.read_text(), arguments, Path(folder))}
            if arguments.kernelbench:
                row |= theirs(reference, candidate, arguments, Path(folder, f"theirs{number}"))
            if "kernelbench_s" in row and "compared_s" in row:
                row["ratio"] = row["compared_s"] / row["kernelbench_s"]
            rows.append(row)
            shown = (f"{k} {v:.3f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
            print("  ".join(shown), file=sys.stderr)
    if arguments.json:
        print(json.dumps(rows, indent=2))
    return 0 if all(row["status"] == "passed" for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
