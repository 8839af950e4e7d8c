"""How fast the documentation index is built, opened and searched, beside the targets of its design.

    python benchmarks/retrieval.py [--quick] [--json]

Indexes pages of our own making (no toolkit and no network is needed) with as many passages as asked for, adds the
notes, and measures in fresh folders: the first build, opening when nothing changed, rebuilding after one page changed,
and queries in the words of the question set. Ends with 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PASSAGES = 5000
QUICK_PASSAGES = 1500
PASSAGES_PER_PAGE = 25
TARGETS = {
    "build_s": 180.0,
    "unchanged_s": 5.0,
    "changed_page_s": 180.0,
    "query_p50_ms": 30.0,
    "query_p95_ms": 80.0,
    "open_ms": 50.0,
}
"""For 5,000 passages on 2 cores; a smaller index gets the same share of the build time."""

OPEN = """
import sys, time
from pathlib import Path
from stitchcuda.rag_index import DocsIndex, Source, notes_source
sources = [notes_source(), Source("made", Path(sys.argv[2]))]
started = time.perf_counter()
index = DocsIndex.open(Path(sys.argv[1]), sources)
print(time.perf_counter() - started, index.stats().stale)
"""


def make_pages(folder: Path, passages: int, seed: int = 1) -> None:
    """Pages of random words of the notes with identifiers between them, about 900 characters a passage."""
    from stitchcuda.nvidia_docs import NOTES_DIR

    text = " ".join(path.read_text(encoding="utf-8") for path in sorted(NOTES_DIR.glob("*.md")))
    words = sorted({word for word in text.split() if word.isalnum()})
    pick = random.Random(seed)
    folder.mkdir()
    for page in range(-(-passages // PASSAGES_PER_PAGE)):
        sections = []
        for section in range(PASSAGES_PER_PAGE):
            body = " ".join(pick.choice(words) for _ in range(120))
            name = f"made{page:03d}Function{section:02d}_sync"
            sections.append(f"## {name}\n\n{body[:850]} `{name}(x)`.\n")
        (folder / f"page-{page:03d}.md").write_text(f"# Page {page}\n\n" + "\n".join(sections), encoding="utf-8")


def measure(passages: int, rounds: int) -> dict[str, Any]:
    """All measurements in one private folder."""
    from stitchcuda.rag_index import DocsIndex, Source, notes_source, read_questions

    with tempfile.TemporaryDirectory(prefix="stitchcuda-retrieval-") as place:
        pages, cache = Path(place) / "pages", Path(place) / "cache"
        make_pages(pages, passages)
        sources = [notes_source(), Source("made", pages)]

        def build() -> float:
            started = time.perf_counter()
            with DocsIndex.open(cache, sources) as index:
                assert not index.stats().stale, index.stats().problems
            return time.perf_counter() - started

        cpu = time.process_time()
        row: dict[str, Any] = {"build_s": build(), "build_cpu_s": time.process_time() - cpu, "unchanged_s": build()}
        with (pages / "page-000.md").open("a") as stream:
            stream.write("\n## A new section\n\nOne passage more.\n")
        row["changed_page_s"] = build()
        opened = []
        for _ in range(5):
            command = [sys.executable, "-c", OPEN, str(cache), str(pages)]
            seconds, stale = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
            assert stale == "False"
            opened.append(float(seconds) * 1000)
        row["open_ms"] = statistics.median(opened)

        times: list[float] = []
        with DocsIndex.open(cache, sources) as index:
            row["passages"] = index.stats().chunks
            row["mode"] = index.stats().mode
            started = time.perf_counter()
            index.query("warm up")
            row["first_query_ms"] = (time.perf_counter() - started) * 1000
            for _ in range(rounds):
                for question in read_questions():
                    started = time.perf_counter()
                    index.query(question.text)
                    times.append((time.perf_counter() - started) * 1000)
        times.sort()
        row |= {
            "queries": len(times),
            "query_p50_ms": times[len(times) // 2],
            "query_p95_ms": times[int(len(times) * 0.95)],
        }
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_PASSAGES} passages instead of {PASSAGES}")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    passages = QUICK_PASSAGES if arguments.quick else PASSAGES
    row = measure(passages, rounds=1 if arguments.quick else 3)
    targets = {
        name: target * passages / PASSAGES if name in ("build_s", "changed_page_s") else target
        for name, target in TARGETS.items()
    }
    missed = [name for name, target in targets.items() if row[name] > target]
    if arguments.json:
        print(json.dumps({**row, "targets": targets, "missed": missed, "load_1min": os.getloadavg()[0]}))
    else:
        print(f"{row['passages']} passages, {row['mode']} search, {row['queries']} queries")
        for name, target in targets.items():
            print(f"{name:<16}{row[name]:>10.2f}   target {target:>6.1f}   {'missed' if name in missed else 'met'}")
        print(f"(first query, with loading: {row['first_query_ms']:.0f} ms; build: {row['build_cpu_s']:.1f} s of CPU)")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
