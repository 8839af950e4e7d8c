"""Measuring tools behind one door: the evaluator, the sandbox, the machine.

Nothing here imports torch: importing the door costs milliseconds, and the process that decides a verdict never
loads the library whose work it judges. Names are resolved on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stitchcuda.tools.evaluate import Evaluator, EvaluatorSettings
    from stitchcuda.tools.machine import inspect_machine, resolve_device
    from stitchcuda.tools.sandbox import IsolatedError, run_isolated, sandbox_features
    from stitchcuda.tools.settling import settle

__all__ = [
    "Evaluator",
    "EvaluatorSettings",
    "IsolatedError",
    "inspect_machine",
    "resolve_device",
    "run_isolated",
    "sandbox_features",
    "settle",
]

_HOMES = {
    "Evaluator": "evaluate",
    "EvaluatorSettings": "evaluate",
    "settle": "settling",
    "inspect_machine": "machine",
    "resolve_device": "machine",
    "IsolatedError": "sandbox",
    "run_isolated": "sandbox",
    "sandbox_features": "sandbox",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
