"""From run folders to training rows, and from verdicts to rewards.

::

    mined = mine_runs(run_dirs)
    split = split_by_problem(mined.rows)
    write_rows(out_dir, mined, split)
    columns = compute_reward("default", RewardFacts.of(evaluation, verdict, rubric))

Nothing here imports ``trl`` or ``transformers``. Not there yet: SFT and GRPO with their recipes, Parquet, the exclusion
of degenerate problems, and a command line.
"""

from __future__ import annotations

from stitchcuda.training.mine import Mined, mine_runs
from stitchcuda.training.reward import RewardColumns, RewardFacts, RewardProfile, compute_reward
from stitchcuda.training.rows import Row, Stats, read_rows, stats, write_rows
from stitchcuda.training.split import Split, problem_similarity, split_by_problem

__all__ = [
    "Mined",
    "RewardColumns",
    "RewardFacts",
    "RewardProfile",
    "Row",
    "Split",
    "Stats",
    "compute_reward",
    "mine_runs",
    "problem_similarity",
    "read_rows",
    "split_by_problem",
    "stats",
    "write_rows",
]
