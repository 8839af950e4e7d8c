"""Do our results hold in somebody else's hands? Feed `best.py` files to KernelBench's own harness.

Needs a GPU and a KernelBench checkout (its code is imported from there, none of it is ours):

    python benchmarks/kernelbench_harness.py --kernelbench ~/KernelBench runs/mine/*

Each run folder's `problem.json` names its problem, `best.py` is the candidate. Every pair is judged in a fresh
process by `eval_kernel_against_ref` (which compiles with torch's plain `load_inline`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ONE = """
import importlib.util, json, sys, types
from pathlib import Path

checkout, run_dir, build_dir, trials = sys.argv[1:5]
sys.path.insert(0, str(Path(checkout, "src")))
if importlib.util.find_spec("litellm") is None:  # imported by its helpers for querying models; evaluation needs none
    sys.modules["litellm"] = types.ModuleType("litellm")
    sys.modules["litellm"].completion = None
from kernelbench.eval import eval_kernel_against_ref

result = eval_kernel_against_ref(
    Path(run_dir, "reference.py").read_text(),
    Path(run_dir, "best.py").read_text(),
    num_correct_trials=int(trials),
    num_perf_trials=20,
    measure_performance=True,
    build_dir=build_dir,
)
print("RESULT " + json.dumps({
    "compiled": result.compiled,
    "correct": result.correctness,
    "candidate_ms": result.runtime,
    "reference_ms": result.ref_runtime,
    "metadata": {key: str(value)[:300] for key, value in result.metadata.items()},
}))
"""


def judge(checkout: Path, run_dir: Path, trials: int, timeout_s: float) -> dict[str, Any]:
    """One run folder through KernelBench's harness; a crash or a time-out is a row too."""
    problem = json.loads((run_dir / "problem.json").read_text())
    row: dict[str, Any] = {"problem": f"{problem['level']}/{problem['id']} {problem['name']}", "run": str(run_dir)}
    if not (run_dir / "best.py").exists():
        return row | {"compiled": False, "correct": False, "error": "no best.py"}
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as build_dir:
        try:
            done = subprocess.run(
                [sys.executable, "-c", ONE, str(checkout), str(run_dir), build_dir, str(trials)],
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return row | {"compiled": False, "correct": False, "error": f"no answer after {timeout_s:.0f} s"}
    row["seconds"] = round(time.monotonic() - started, 1)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            row |= json.loads(line.removeprefix("RESULT "))
            if row["candidate_ms"] > 0 and row["reference_ms"] > 0:
                row["speedup"] = row["reference_ms"] / row["candidate_ms"]
            return row
    return row | {"compiled": False, "correct": False, "error": (done.stderr or done.stdout)[-600:]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="run folders")
    parser.add_argument("--kernelbench", type=Path, required=True, help="a KernelBench checkout")
    parser.add_argument("--trials", type=int, default=5, help="correctness trials per candidate")
    parser.add_argument("--timeout-s", type=float, default=400, help="limit per candidate, build included")
    parser.add_argument("--quick", action="store_true", help="one correctness trial per candidate")
    parser.add_argument("--json", action="store_true", help="rows as one JSON list on stdout")
    arguments = parser.parse_args()
    trials = 1 if arguments.quick else arguments.trials
    rows = []
    for run_dir in arguments.runs:
        row = judge(arguments.kernelbench, run_dir, trials, arguments.timeout_s)
        rows.append(row)
        verdict = "accepted" if row["correct"] else "refused"
        ratio = f"{row['speedup']:.2f}x" if "speedup" in row else ""
        print(f"{verdict:9} {ratio:>7} {row['problem']} {row.get('error', '')}", file=sys.stderr)
    if arguments.json:
        print(json.dumps(rows, indent=2))
    return 0 if all(row["correct"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
