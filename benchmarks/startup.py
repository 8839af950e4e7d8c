"""How long ``stitchcuda --help`` takes in a fresh process.

    python benchmarks/startup.py [--quick] [--json]

Prints the median wall time of N fresh processes beside the target of 0.3 s, with the CPU time and with what a bare
interpreter takes, so that a busy or slow machine is told from slow imports. Ends with 1 when the
median is over the target.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

TARGET_S = 0.3
COMMANDS = {
    "stitchcuda --help": "import sys; from stitchcuda.cli.main import main; sys.exit(main(['--help']))",
    "stitchcuda solve --help": "import sys; from stitchcuda.cli.main import main; sys.exit(main(['solve', '--help']))",
    "python -c pass": "pass",
}


def measure(code: str, repeats: int) -> dict[str, float]:
    """Wall and CPU seconds of ``repeats`` processes that run ``code``, after one that fills the file cache."""
    wall, cpu = [], []
    for _ in range(repeats + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=True)
        wall.append(time.perf_counter() - started)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    wall, cpu = wall[1:], cpu[1:]
    return {
        "median_s": statistics.median(wall),
        "min_s": min(wall),
        "max_s": max(wall),
        "cpu_median_s": statistics.median(cpu),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="7 processes per command instead of 31")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    repeats = 7 if arguments.quick else 31

    rows = {name: measure(code, repeats) for name, code in COMMANDS.items()}
    met = rows["stitchcuda --help"]["median_s"] <= TARGET_S
    if arguments.json:
        load = os.getloadavg()[0]
        print(json.dumps({"repeats": repeats, "target_s": TARGET_S, "met": met, "load_1min": load, "commands": rows}))
    else:
        print(f"{'command':<26}{'median':>9}{'min':>9}{'max':>9}{'CPU':>9}   ({repeats} fresh processes)")
        for name, row in rows.items():
            print(
                f"{name:<26}{row['median_s']:>8.3f}s{row['min_s']:>8.3f}s{row['max_s']:>8.3f}s{row['cpu_median_s']:>8.3f}s"
            )
        print(f"target for --help: {TARGET_S} s, {'met' if met else 'missed'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
