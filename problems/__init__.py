"""Problems: loading, describing and reducing reference programs.

Importing this package executes no problem and imports neither torch nor ``datasets``. ``problems.describe:describe``
and ``problems.reduce:reduce_sizes`` execute a problem's source; they are run in an isolated worker.
"""

from stitchcuda.problems.kernelbench import load_huggingface, load_kernelbench
from stitchcuda.problems.loading import load_folder, load_problem
from stitchcuda.problems.problem import Problem

__all__ = ["Problem", "load_folder", "load_huggingface", "load_kernelbench", "load_problem"]
