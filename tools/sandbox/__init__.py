"""Processes that may run code which nobody has read.

One fork server per process (torch imported once, no candidate and no CUDA ever in it) forks a worker per
request. Around each worker, as far as the kernel allows (``features.py`` says what this machine has):

- a private folder, an environment without keys, limits on address space, file size, descriptors and processes;
- namespaces of its own for users, processes, mounts and the network; a disk of limited size as its folder, and a
  ``/proc`` that shows its own processes only (``kernel.py``);
- Landlock: it writes in its folder and nowhere else, and reads what Python, torch, CUDA and the built extensions
  need (``landlock.py``, ``paths.py``);
- seccomp: no sockets but the inherited one, no tracing, mounting, loading or other calls that nobody needs
  (``seccomp.py``).

Compilers run in a box of the same walls (``box.py``). ``STITCHCUDA_SANDBOX_OFF`` turns single walls off where a
driver or a container needs it.

Does NOT protect from: code in a worker that forges *its own* answers (whoever uses an answer of a candidate's worker
checks it against something that the candidate cannot reach); holes in the kernel or in the GPU's driver, whose
devices are open to workers; other users of the same GPU, whose memory the driver keeps apart but whose load a
candidate can feel and cause; a candidate that fills the GPU's memory; timing side channels; the memory of many
processes together on a machine without a GPU (each is limited, their sum is not, and the kernel ends workers first
when memory runs out). Where a feature is missing, what it would cut stays open.
"""

from __future__ import annotations

from stitchcuda.tools.sandbox.box import boxed
from stitchcuda.tools.sandbox.client import Worker, WorkerGone, spawn_worker, warm_up
from stitchcuda.tools.sandbox.features import sandbox_features, unprotected
from stitchcuda.tools.sandbox.isolated import IsolatedError, run_isolated
from stitchcuda.tools.sandbox.wire import Channel, ProtocolError

__all__ = [
    "Channel",
    "IsolatedError",
    "ProtocolError",
    "Worker",
    "WorkerGone",
    "boxed",
    "run_isolated",
    "sandbox_features",
    "spawn_worker",
    "unprotected",
    "warm_up",
]
