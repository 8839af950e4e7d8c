"""Make the screenshots of ``docs/inspecting.md``: play a small session, write its page, let Chromium draw it.

    python docs/make_screenshots.py [--run DIR] [--chromium PATH]

Needs Chromium (Debian package ``chromium``). The session is scripted: a kernel that does not compile, one that is
wrong, and two that pass; builds, checks and the trace are real, on the ``cpu`` device.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

IMAGES = Path(__file__).parent / "images"

PROBLEM = '''
import torch
import torch.nn as nn


class Model(nn.Module):
    """Scale, clip at zero, sum each row."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * 3.0 - 0.5).sum(dim=-1)


rows = 6
columns = 40


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return []
'''

CANDIDATE = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>

__global__ void scale_clip(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fmaxf(x[i] * 3.0f - OFFSET, 0.0f);
}

torch::Tensor scaled(torch::Tensor x) {
  auto y = torch::empty_like(x);
  const int n = x.numel();
  scale_clip<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;
}
"""

kernels = load_inline(
    name="scale_clip",
    cpp_sources="torch::Tensor scaled(torch::Tensor x);",
    cuda_sources=CUDA,
    functions=["scaled"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return kernels.scaled(x.contiguous()).sum(dim=-1)
'''

ROW_SUM = """__global__ void row_sum(const float* x, float* y, int columns) {
  __shared__ float partial[64];
  float total = 0.0f;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) {
    total += fmaxf(x[blockIdx.x * columns + c] * 3.0f - 0.5f, 0.0f);
  }
  partial[threadIdx.x] = total;
  __syncthreads();
  for (int half = 32; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = partial[0];
}

torch::Tensor scaled(torch::Tensor x) {
  auto y = torch::empty({x.size(0)}, x.options());
  row_sum<<<x.size(0), 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return y;
}
\"\"\"
"""


def answers() -> dict[str, list[object]]:
    """What the roles say, in order."""
    right = CANDIDATE.replace("OFFSET", "0.5f")
    start, end = right.index("__global__"), right.index("\nkernels")
    fused = (right[:start] + ROW_SUM + right[end:]).replace(
        "scaled(x.contiguous()).sum(dim=-1)", "scaled(x.contiguous())"
    )
    sources = {
        "Scale and clip in one kernel.": CANDIDATE.replace("OFFSET", "offset"),
        "The offset as a constant.": CANDIDATE.replace("OFFSET", "0.05f"),
        "The offset of the reference.": right,
        "The row sum in the same kernel, reduced in shared memory.": fused,
    }
    subtasks = [
        {"id": id, "title": title, "ops": ops, "contract": "float32[6, 40], contiguous", "technique": technique}
        | {"done_when": "it passes"}
        for id, title, ops, technique in (
            ("clip", "scale and clip", ["mul", "sub", "relu"], "one elementwise kernel"),
            ("sum", "sum of each row", ["sum_1"], "a block per row, reduced in shared memory"),
        )
    ]
    advice = {"evidence": ["the compiler's first message"], "instruction": "Use the constants of the reference."}
    return {
        "planner": [{"json": {"summary": "Fuse the elementwise ops, then the row sum.", "subtasks": subtasks}}],
        "coder": [f"Summary: {what}\n```python\n{source}\n```" for what, source in sources.items()],
        "verifier": [{"json": advice | {"replan": False}}] * 8,
    }


def play(run_dir: Path) -> None:
    """Solve the problem with the scripted roles."""
    run_dir.parent.mkdir(parents=True, exist_ok=True)
    problem, script = run_dir.parent / "scale_clip_sum.py", run_dir.parent / "script.json"
    problem.write_text(PROBLEM)
    script.write_text(json.dumps({"roles": answers()}))
    roles = [part for role in ("planner", "coder", "verifier") for part in (f"--{role}", f"scripted:{script}")]
    stitchcuda = Path(sys.executable).parent / "stitchcuda"
    command = [stitchcuda, "solve", problem, "--device", "cpu", "--out", run_dir, *roles]
    subprocess.run(command, check=True, env=os.environ | {"LANGSMITH_TRACING": "false"})


def shoot(chromium: str, page: Path, hash: str, name: str, width: int, height: int, dark: bool = False) -> None:
    """One screenshot of a part of the page."""
    text = page.read_text()
    if dark:
        text = text.replace('<html lang="en">', '<html lang="en" data-theme="dark">')
        text = text.replace(
            'theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")', '"dark"'
        )
    if hash == "attempts":
        text = text.replace('document.body.dataset.ready = "yes";', 'setView("attempts");')
    shown = page.with_name(f"{name}.html")
    shown.write_text(text)
    command = [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += [f"--window-size={width},{height}", "--virtual-time-budget=4000"]
    command += [f"--screenshot={IMAGES / name}.png", f"{shown.as_uri()}#{hash}"]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL, timeout=120)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, help="a run folder of this session that exists already")
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("google-chrome"))
    arguments = parser.parse_args()
    if not arguments.chromium:
        print("Chromium is not installed (Debian package chromium), or give --chromium PATH", file=sys.stderr)
        return 3
    from stitchcuda.traces.index import TraceIndex
    from stitchcuda.traces.page import write_page

    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        run_dir = arguments.run or Path(folder) / "scale_clip_sum"
        if not run_dir.exists():
            play(run_dir)
        page = Path(folder) / "page.html"
        write_page(run_dir, page)
        with TraceIndex(run_dir) as index:
            calls = [row.number for row in index.rows() if row.run_type == "llm"]
        shoot(arguments.chromium, page, str(calls[1]), "trace", 1040, 480)
        shoot(arguments.chromium, page, "attempts", "attempts", 1040, 560, dark=True)
        shoot(arguments.chromium, page, "1x", "phone", 500, 480)
    return 0


if __name__ == "__main__":
    sys.exit(main())
