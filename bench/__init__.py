"""Many problems with one configuration: choosing, running, scoring, reporting.

Importing this package is cheap; ``bench.batch`` imports the graph when a problem is run.
"""

from stitchcuda.bench.batch import Batch, Watcher, prepare_batch, run_batch
from stitchcuda.bench.compare import Comparison, compare
from stitchcuda.bench.records import BatchFile, BatchResult, Listed
from stitchcuda.bench.report import render_comparison, render_report
from stitchcuda.bench.results import BatchFolder
from stitchcuda.bench.scores import Scores, score
from stitchcuda.bench.selection import Selection, select

__all__ = [
    "Batch",
    "BatchFile",
    "BatchFolder",
    "BatchResult",
    "Comparison",
    "Listed",
    "Scores",
    "Selection",
    "Watcher",
    "compare",
    "prepare_batch",
    "render_comparison",
    "render_report",
    "run_batch",
    "score",
    "select",
]
