"""How long does a candidate take to build: the light facade against torch's plain `load_inline`?

    python benchmarks/build.py --quick --json        # one candidate on the emulator's target
    python benchmarks/build.py --target sm_90        # needs a GPU build of torch for the plain side

Both sides build the same source from an empty cache; the plain side is torch's own `load_inline` in a process of its
own (on `cpu` with the emulator's rewriting done first, so that both compile the same text). Wall and CPU seconds of
all compilers are reported; one-time costs (precompiled headers) are told apart from the cost per candidate.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stitchcuda.tools.build import Builder, ExtensionSpec

TEMPLATE = """#include <torch/extension.h>
#include <cuda_runtime.h>
__global__ void scale(const float* x, float* y, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * {factor}.0f;
}}
torch::Tensor run(torch::Tensor x) {{
  auto y = torch::empty_like(x);
  scale<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}}
"""
DECLARATION = "torch::Tensor run(torch::Tensor x);"
PLAIN = """
import json, resource, sys, time
from torch.utils.cpp_extension import load_inline
job = json.load(sys.stdin)
started = time.monotonic()
load_inline(name="plain", functions=["run"], **job)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print()
print(json.dumps({"wall_s": round(time.monotonic() - started, 2), "cpu_s": round(used.ru_utime + used.ru_stime, 2)}))
"""


def measured(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """The result of ``work``, with its wall seconds and the CPU seconds of its child processes."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    result = work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return result, {"wall_s": round(time.monotonic() - started, 2), "cpu_s": round(cpu, 2)}


def build_ours(builder: Builder, factor: int, target: str) -> dict[str, Any]:
    spec = ExtensionSpec("ours", (DECLARATION,), (TEMPLATE.format(factor=factor),), ("run",))
    build, cost = measured(lambda: builder.build(spec, target))
    if not build.ok:
        raise SystemExit(f"our build failed: {build.diagnostics[0].message}")
    return {"headers": build.headers, **cost}


def build_plain(factor: int, target: str, folder: Path) -> dict[str, Any]:
    source = TEMPLATE.format(factor=factor)
    job: dict[str, Any] = {"cpp_sources": DECLARATION, "cuda_sources": source, "build_directory": str(folder)}
    if target == "cpu":
        from stitchcuda.tools.emulator import compile_flags, include_dir, prelude, rewrite

        job["cpp_sources"] = prelude() + rewrite(source, "plain.cu").text
        job["extra_cflags"] = ["-O2", f"-I{include_dir()}", *(f for f in compile_flags() if not f.startswith("-Wl,"))]
        del job["cuda_sources"]
    command = [sys.executable, "-c", PLAIN]
    done = subprocess.run(command, input=json.dumps(job), text=True, check=True, stdout=subprocess.PIPE)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cpu", help="cpu or sm_NN")
    parser.add_argument("--count", type=int, default=5, help="candidates per side")
    parser.add_argument("--quick", action="store_true", help="one candidate on the plain side, three on ours")
    parser.add_argument("--json", action="store_true", help="print the record instead of lines")
    options = parser.parse_args()
    ours_count, plain_count = (3, 1) if options.quick else (options.count, options.count)
    with tempfile.TemporaryDirectory() as scratch:
        builder = Builder(Path(scratch, "cache"), timeout_s=600)
        first = build_ours(builder, 0, options.target)
        ours = [build_ours(builder, number, options.target) for number in range(1, ours_count + 1)]
        plain = []
        for number in range(plain_count):
            folder = Path(scratch, f"plain{number}")
            folder.mkdir()
            plain.append(build_plain(number, options.target, folder))

    def median(rows: list[dict[str, Any]], key: str) -> float:
        return statistics.median(row[key] for row in rows)

    record = {
        "target": options.target,
        "first": first,
        "ours": ours,
        "plain": plain,
        "ratio_wall": round(median(plain, "wall_s") / median(ours, "wall_s"), 1),
        "ratio_cpu": round(median(plain, "cpu_s") / median(ours, "cpu_s"), 1),
        "facade_share": sum(row["headers"] == "facade" for row in ours) / len(ours),
    }
    if options.json:
        print(json.dumps(record, indent=2))
        return
    print(f"first build, with one-time headers: {first['wall_s']} s wall, {first['cpu_s']} s CPU")
    print(f"ours:  {median(ours, 'wall_s')} s wall, {median(ours, 'cpu_s')} s CPU (median of {len(ours)})")
    print(f"plain: {median(plain, 'wall_s')} s wall, {median(plain, 'cpu_s')} s CPU (median of {len(plain)})")
    print(f"ratio: {record['ratio_wall']} wall, {record['ratio_cpu']} CPU")


if __name__ == "__main__":
    main()
