"""From numbers to a verdict, in the parent: which status, which reason codes, which sentence.

Pure functions over what the reference worker measured; no torch, no processes.
"""

from __future__ import annotations

from typing import Any

from stitchcuda.core.records import OutputCheck, Status

__all__ = ["CONTROLS", "TOLERANCES", "first_failure", "judge_leaf", "numerics_reason"]

# 1e-4 of the golden's RMS lets float32 kernels sum in any order (and 3xTF32), and fails TF32 (~4e-4 RMS,
# 2e-3 at the worst element) and bf16. The 16-bit types get two of their own roundings.
_BY_DTYPE = {
    "float64": 1e-9,
    "float32": 1e-4,
    "float16": 2e-3,
    "bfloat16": 1.6e-2,
    "complex64": 1e-4,
    "complex128": 1e-9,
}
TOLERANCES: dict[str, Any] = {
    "rtol": _BY_DTYPE,
    "atol_rms": _BY_DTYPE,
    # An error up to four times the reference's own worst one (against float64) is as good as the reference.
    "own_error_factor": 4.0,
}

CONTROLS = ("zeros", "constant", "input_itself", "first_output", "half_of_the_work", "low_precision")
"""What a lazy candidate would return (``controls.py``)."""

_WORST_FIRST = (Status.CHEATING, Status.WRONG_SHAPE, Status.WRONG_DTYPE, Status.WRONG_VALUES)


def judge_leaf(trial: str, leaf: dict[str, Any]) -> tuple[OutputCheck, str]:
    """One compared output as a record, and the reason code if it failed."""
    path, kind = leaf["path"], leaf["kind"]
    if kind == "values":
        total, mismatched = leaf["total"], leaf["mismatched"]
        numbers = {
            "max_abs_error": leaf["max_abs"],
            "max_rel_error": leaf["max_rel"],
            "mismatched_fraction": mismatched / total if total else 0.0,
        }
        if mismatched == 0:
            return OutputCheck(trial=trial, output=path, ok=True, **numbers), ""
        if leaf["nonfinite_mismatched"] == mismatched:
            message = f"{mismatched} of {total} values are NaN or infinite where the reference is not (or the reverse)"
            code = "nonfinite"
        else:
            worst = leaf["max_abs"]
            size = f", golden RMS {leaf['golden_rms']:.3g}" if leaf["golden_rms"] is not None else ""
            message = f"{mismatched} of {total} values differ"
            message += f" (max abs error {worst:.3g}{size})" if worst is not None else ""
            code = "mismatch"
        failed = OutputCheck(trial=trial, output=path, ok=False, status=Status.WRONG_VALUES, message=message, **numbers)
        return failed, code
    status = Status.WRONG_DTYPE if kind in ("dtype", "device") else Status.WRONG_SHAPE
    if kind == "structure" and leaf.get("subclass"):
        message = f"expected {leaf['expected']}, got {leaf['got']}: a tensor subclass may compute when it is looked at"
        return OutputCheck(trial=trial, output=path, ok=False, status=Status.CHEATING, message=message), "lazy_output"
    code = {"structure": "structure", "shape": "shape", "dtype": "dtype", "device": "device"}[kind]
    message = f"expected {kind if kind != 'structure' else ''} {leaf['expected']}, got {leaf['got']}".replace("  ", " ")
    return OutputCheck(trial=trial, output=path, ok=False, status=status, message=message), code


def first_failure(checks: list[tuple[OutputCheck, str]]) -> tuple[Status, tuple[str, ...], str]:
    """Status, reason codes and a one-line message for a list in which at least one check failed."""
    failed = [(check, code) for check, code in checks if not check.ok]
    for status in _WORST_FIRST:
        matching = [(check, code) for check, code in failed if check.status is status]
        if matching:
            check = matching[0][0]
            codes = tuple(dict.fromkeys(code for _, code in matching))
            return status, codes, f"{check.output} ({check.trial}): {check.message}"
    raise ValueError("no check has failed")


def numerics_reason(moved: list[Any]) -> str:
    """Settings that trade accuracy for speed have a reason of their own."""
    speed = ("float32_matmul", "cudnn.allow_tf32", "autocast")
    return "precision_downgrade" if all(str(item).startswith(speed) for item in moved) else "harness_tamper"
