"""The embedded Coder's compiler: op graph, fusion groups, CUDA C++, candidate source.

``tracing`` imports torch and executes the reference; it is reached by name, in an isolated worker. Everything
else is pure Python over records.
"""

from stitchcuda.codegen.emit import Workspace, emit, open_workspace
from stitchcuda.codegen.groups import Group, find_groups
from stitchcuda.codegen.schedule import Schedule, default_schedule, parse_schedule, schedule_space
from stitchcuda.codegen.trace import Node, TensorSpec, Trace, TraceError

__all__ = [
    "Group",
    "Node",
    "Schedule",
    "TensorSpec",
    "Trace",
    "TraceError",
    "Workspace",
    "default_schedule",
    "emit",
    "find_groups",
    "open_workspace",
    "parse_schedule",
    "schedule_space",
]
