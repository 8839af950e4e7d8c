"""Processes that may run code which nobody has read.

One fork server per process (torch imported once, no candidate and no CUDA ever in it) forks a worker per
request: own session, private folder, limits, clean environment, and, where the kernel allows, namespaces of its
own for users, processes, mounts and the network. ``features.py`` says which of these are active on a machine.

Does NOT protect from (yet): reading files that the user can read (no Landlock), writing where the user may write,
unusual system calls (no seccomp), code in a worker that forges *its own* answers. Whoever uses an answer of a
candidate's worker therefore checks it against something the candidate cannot reach.
"""

from __future__ import annotations

from stitchcuda.tools.sandbox.client import Worker, WorkerGone, spawn_worker, warm_up
from stitchcuda.tools.sandbox.features import sandbox_features
from stitchcuda.tools.sandbox.isolated import IsolatedError, run_isolated
from stitchcuda.tools.sandbox.wire import Channel, ProtocolError

__all__ = [
    "Channel",
    "IsolatedError",
    "ProtocolError",
    "Worker",
    "WorkerGone",
    "run_isolated",
    "sandbox_features",
    "spawn_worker",
    "warm_up",
]
