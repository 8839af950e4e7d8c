"""How long does a candidate take to build: the light facade against torch's plain `load_inline`?

    python benchmarks/build.py --quick --json              # a few candidates on the emulator, one of them plainly too
    python benchmarks/build.py                             # all of them, on the emulator
    python benchmarks/build.py --target sm_90 --plain 5    # for a GPU (the plain side needs a GPU build of torch)
    python benchmarks/build.py --target sm_90 --plain 0    # needs nvcc alone

The candidates are those of `benchmarks/candidates/` and what the embedded Coder writes for `examples/`, in two
schedules. Ours start from an empty cache, whose one-time costs (runtime, precompiled headers) are told apart. The plain
side is torch's own `load_inline` in a process of its own (on `cpu` after the emulator's rewriting, so that both compile
the same text); where both sides were built, their results are compared bit by bit.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stitchcuda.core.records import ExtensionBuild
from stitchcuda.tools.build import Builder, ExtensionSpec

HERE = Path(__file__).parent
PLAIN = """
import json, resource, sys, time
import torch
from torch.utils.cpp_extension import load_inline
job = json.load(sys.stdin)
started = time.monotonic()
m = load_inline(**job["arguments"])
seconds, used = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
if job["call"]:
    torch.set_default_device(job["device"])
    torch.save(eval(job["call"]), job["result"])
print()
print(json.dumps({"wall_s": round(seconds, 2), "cpu_s": round(used.ru_utime + used.ru_stime, 2)}))
"""


@dataclass(frozen=True)
class Candidate:
    spec: ExtensionSpec
    call: str = ""
    """An expression over ``m`` and ``torch``; empty where only the build is looked at."""


def handwritten() -> Iterator[Candidate]:
    """The files of `candidates/`; their first lines say how they are bound and called."""
    for file in sorted((HERE / "candidates").glob("*.cu")):
        source = file.read_text(encoding="utf-8")
        head = dict(re.findall(r"^// (functions|declare|call): (.+)$", source, re.MULTILINE))
        declared = (head["declare"],) if "declare" in head else ()
        functions = tuple(head["functions"].split()) if "functions" in head else ()
        yield Candidate(ExtensionSpec(file.stem, declared, (source,), functions), head["call"])


def generated(examples: Sequence[Path]) -> Iterator[Candidate]:
    """What the embedded Coder writes for ``examples``: its default schedules, and one group with its last schedule."""
    import types

    import torch.utils.cpp_extension as cpp_extension

    from stitchcuda.codegen import Trace
    from stitchcuda.codegen.emit import open_workspace
    from stitchcuda.codegen.schedule import schedule_space
    from stitchcuda.codegen.tracing import trace_source

    for file in examples:
        source = file.read_text(encoding="utf-8")
        workspace = open_workspace(source, Trace.model_validate(json.loads(json.dumps(trace_source(source)))))
        ids = [group.id for group in workspace.groups]
        last = {group.id: str(schedule_space(group)[-1]) for group in workspace.groups[:1]}
        for kind, text in (("all", workspace.emit(ids, {})), ("one", workspace.emit(ids[:1], last))):
            found: list[dict[str, Any]] = []

            class Captured(Exception):
                pass

            def load_inline(found: list[dict[str, Any]] = found, **given: Any) -> None:
                found.append(given)
                raise Captured

            setattr(cpp_extension, "load_inline", load_inline)  # noqa: B010
            try:
                exec(compile(text, "candidate.py", "exec"), types.ModuleType("candidate").__dict__)
            except Captured:
                given = found[0]
                yield Candidate(
                    ExtensionSpec(
                        f"{file.stem}_{kind}".replace("-", "_").lstrip("0123456789_"),
                        (given["cpp_sources"],),
                        (given["cuda_sources"],),
                        tuple(given["functions"]),
                        extra_cuda_cflags=tuple(given.get("extra_cuda_cflags", ())),
                    )
                )


def measured(work: Callable[[], ExtensionBuild]) -> tuple[ExtensionBuild, dict[str, float]]:
    """The result of ``work``, with its wall seconds and the CPU seconds of its child processes."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    result = work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return result, {"wall_s": round(time.monotonic() - started, 2), "cpu_s": round(cpu, 2)}


def build_ours(builder: Builder, candidate: Candidate, target: str) -> tuple[dict[str, Any], ExtensionBuild]:
    build, cost = measured(lambda: builder.build(candidate.spec, target))
    error = "" if build.ok else build.diagnostics[0].message
    return {"name": candidate.spec.name, "headers": build.headers, "ok": build.ok, "error": error, **cost}, build


def start_plain(candidate: Candidate, target: str, folder: Path, threads: int) -> subprocess.Popen[str]:
    """torch's own `load_inline` on the same text; leaves its cost and the call's value in ``folder``."""
    spec = candidate.spec
    # A file that binds itself must not get a second module.
    functions = list(spec.functions) or None
    arguments: dict[str, Any] = {"name": spec.name, "functions": functions, "build_directory": str(folder)}
    if target == "cpu":
        from stitchcuda.tools.emulator import compile_flags, include_dir, prelude, rewrite

        texts = [rewrite(text, "plain").text for text in (*spec.cpp_sources, *spec.cuda_sources)]
        arguments["cpp_sources"] = prelude() + "\n".join(texts)
        flags = [flag for flag in compile_flags() if not flag.startswith("-Wl,")]
        arguments["extra_cflags"] = ["-O2", "-DSTITCHCUDA_EMULATOR=1", f"-I{include_dir()}", *flags]
    else:
        arguments["cpp_sources"], arguments["cuda_sources"] = "\n".join(spec.cpp_sources), "\n".join(spec.cuda_sources)
        arguments["extra_cuda_cflags"] = list(spec.extra_cuda_cflags)
    device = "cpu" if target == "cpu" else "cuda"
    job = {"arguments": arguments, "call": candidate.call, "device": device, "result": str(folder / "result.pt")}
    env = {**os.environ, "MAX_JOBS": str(threads)}
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    with (folder / "job.json").open() as given, (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        return subprocess.Popen([sys.executable, "-c", PLAIN], stdin=given, stdout=out, stderr=err, env=env, text=True)


def finish_plain(process: subprocess.Popen[str], folder: Path) -> dict[str, Any]:
    if process.wait() != 0:
        lines = (folder / "err").read_text().strip().splitlines()
        return {"ok": False, "error": next((line for line in lines if " error: " in line), lines[-1])}
    return {"ok": True, **json.loads((folder / "out").read_text().splitlines()[-1])}


def results_equal(candidate: Candidate, build: ExtensionBuild, target: str, result: Path) -> bool | None:
    """Whether our build's results are those of the plain build, bit by bit; ``None`` without a call."""
    import torch

    from stitchcuda.tools.build.loader import load_extension

    if not candidate.call:
        return None
    device = "cpu" if target == "cpu" else "cuda"
    expected = torch.load(result)
    with torch.device(device):
        got = eval(candidate.call, {"m": load_extension(build.model_dump(mode="json"), candidate.spec), "torch": torch})
    return equal(got, expected)


def equal(a: Any, b: Any) -> bool:
    import torch

    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    same_form = a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride()
    return same_form and torch.equal(
        a.contiguous().view(-1).view(torch.uint8), b.contiguous().view(-1).view(torch.uint8)
    )


def run(options: argparse.Namespace) -> dict[str, Any]:
    examples = sorted((HERE.parent / "examples").glob("*.py"))
    own = list(handwritten())
    if options.quick:
        own = [item for item in own if item.spec.name in ("softmax_rows", "relu_dispatch", "own_binding")]
        candidates = [*own, *generated(examples[:1])]
    else:
        candidates = [*own, *generated(examples)]
    plain_count = options.plain if options.plain is not None else 1 if options.quick else 3
    # Spread over the list, so that both kinds are among them.
    step = max(1, len(candidates) // max(1, plain_count))
    sample = {item.spec.name for item in candidates[::step][:plain_count]}
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        builder = Builder(Path(scratch, "cache"), timeout_s=900)

        def start(candidate: Candidate) -> tuple[subprocess.Popen[str], Path]:
            folder = Path(scratch, f"plain-{candidate.spec.name}")
            folder.mkdir()
            return start_plain(candidate, options.target, folder, options.threads), folder

        # A quick run has the plain build beside ours. A child's CPU time is counted when it is waited for, so that it
        # is not taken for that of our compilers.
        early = {item.spec.name: start(item) for item in candidates if options.quick and item.spec.name in sample}
        once = dataclasses.replace(own[0].spec, name="first")
        first, _ = build_ours(builder, Candidate(once), options.target)
        builds = []
        for candidate in candidates:
            row, build = build_ours(builder, candidate, options.target)
            builds.append(build)
            rows.append(row)
            if candidate.spec.name in sample and not options.quick:
                compare(row, candidate, build, options.target, *start(candidate))
            print(line_of(row), file=sys.stderr, flush=True)
        for row, candidate, build in zip(rows, candidates, builds, strict=True):
            if candidate.spec.name in early:
                compare(row, candidate, build, options.target, *early[candidate.spec.name])
                print(line_of(row), file=sys.stderr, flush=True)
    return summary(options.target, first, rows)


def compare(
    row: dict[str, Any],
    candidate: Candidate,
    build: ExtensionBuild,
    target: str,
    process: subprocess.Popen[str],
    folder: Path,
) -> None:
    """Add the plain side, and whether the results are equal, to ``row``."""
    row["plain"] = plain = finish_plain(process, folder)
    if plain["ok"] and build.ok:
        row["equal"] = results_equal(candidate, build, target, folder / "result.pt")


def summary(target: str, first: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    both = [row for row in rows if row["ok"] and row.get("plain", {}).get("ok")]
    ratios = {key: [row["plain"][key] / max(row[key], 0.01) for row in both] for key in ("wall_s", "cpu_s")}
    compared = [row["equal"] for row in rows if row.get("equal") is not None]
    record: dict[str, Any] = {"target": target, "candidates": len(rows), "first": first}
    for key in ("wall_s", "cpu_s"):
        record[f"median_{key}"] = round(statistics.median(row[key] for row in rows), 2)
        record[f"ratio_{key.removesuffix('_s')}"] = round(statistics.median(ratios[key]), 1) if both else None
    return record | {
        "facade_share": round(sum(row["ok"] and row["headers"] == "facade" for row in rows) / len(rows), 3),
        "fall_back_share": round(sum(row["ok"] and row["headers"] == "torch" for row in rows) / len(rows), 3),
        "failed": [row["name"] for row in rows if not row["ok"]],
        "compared": len(compared),
        "bit_equal": sum(compared),
        "rows": rows,
    }


def line_of(row: dict[str, Any]) -> str:
    text = f"{row['name']:32} {row['headers']:7} {row['wall_s']:7.2f} s wall {row['cpu_s']:7.2f} s CPU"
    if plain := row.get("plain"):
        text += f"   plain {plain['wall_s']:.1f} s wall" if plain["ok"] else f"   plain failed: {plain['error']}"
        text += {True: ", equal", False: ", NOT EQUAL", None: ""}[row.get("equal")]
    return text if row["ok"] else f"{text}   FAILED: {row['error']}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cpu", help="cpu or sm_NN")
    parser.add_argument("--plain", type=int, help="how many candidates are built plainly too (default 3; 1 when quick)")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="compilers at once on the plain side")
    parser.add_argument("--quick", action="store_true", help="five candidates, one of them plainly too")
    parser.add_argument("--json", action="store_true", help="print the record instead of lines")
    options = parser.parse_args()
    record = run(options)
    if options.json:
        print(json.dumps(record, indent=2))
    else:
        shown = {key: value for key, value in record.items() if key not in ("rows", "first")}
        print(f"first build, with one-time parts: {record['first']['wall_s']} s wall, {record['first']['cpu_s']} s CPU")
        print("\n".join(f"{key}: {value}" for key, value in shown.items()))
    return 1 if record["failed"] or record["bit_equal"] < record["compared"] else 0


if __name__ == "__main__":
    sys.exit(main())
