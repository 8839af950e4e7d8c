"""Numbers about a candidate's outputs against the golden ones (reference worker, chunk by chunk).

Comes in: the golden, and the candidate's outputs as an untrusted tree. Goes out: one dict of numbers per output
leaf, JSON-able. The comparison runs in the trusted reference worker, so that the parent needs no torch; whether the
numbers are good enough is decided in the parent (``verdict.py``), which also sends the tolerances.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from stitchcuda.tools.checks.golden import Golden

__all__ = ["compare", "digest"]

_CHUNK = 1 << 20
"""Elements; a comparison takes about 150 bytes for each of one chunk, however large the output is."""


def compare(golden: Golden, tree: Any, outputs: Any, tolerances: dict[str, Any]) -> list[dict[str, Any]]:
    """Walk golden and candidate side by side.

    Args:
        tree: the candidate's outputs as described by it (types, shapes, dtypes, also of what cannot be unpacked).
        outputs: the same, unpacked on the golden's device; ``None`` below leaves that cannot be unpacked.
        tolerances: ``{"rtol": {dtype: x}, "atol_rms": {dtype: x}, "own_error_factor": k}``.

    Returns:
        Per leaf ``{"path", "kind": "structure"|"shape"|"dtype"|"device"|"values", …}``; a ``values`` entry has
        ``max_abs, max_rel, mismatched, nonfinite_mismatched, total, golden_rms, own_error``.
    """
    return list(_walk("out", golden.plain, golden.exact, tree, outputs, tolerances))


def _walk(
    path: str, plain: Any, exact: Any, tree: Any, got: Any, tolerances: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    kind = tree.get("t")
    if isinstance(plain, torch.Tensor):
        if kind != "tensor":
            # A tensor that could not be passed on as bytes says its dtype and layout in brackets.
            subclass = kind == "other" and str(tree.get("type", "")).endswith(")")
            yield _structure(path, "a tensor", _say(tree)) | {"subclass": subclass}
            return
        if list(plain.shape) != list(tree["shape"]):
            yield {"path": path, "kind": "shape", "expected": list(plain.shape), "got": list(tree["shape"])}
        elif (name := str(plain.dtype).removeprefix("torch.")) != tree["dtype"]:
            yield {"path": path, "kind": "dtype", "expected": name, "got": tree["dtype"]}
        elif plain.device.type != tree["device"]:
            yield {"path": path, "kind": "device", "expected": plain.device.type, "got": tree["device"]}
        else:
            yield {"path": path, "kind": "values", **_values(plain, exact, got, tolerances)}
        return
    if isinstance(plain, (tuple, list)):
        # A binding returns a list where Python code returns a tuple: both are sequences to a caller.
        if kind not in ("tuple", "list"):
            yield _structure(path, f"a {type(plain).__name__} of {len(plain)}", _say(tree))
        elif len(plain) != len(tree["items"]):
            yield _structure(path, f"{len(plain)} items", f"{len(tree['items'])} items")
        else:
            for i, item in enumerate(plain):
                deeper = exact[i] if exact is not None else None
                yield from _walk(f"{path}[{i}]", item, deeper, tree["items"][i], got[i], tolerances)
        return
    if isinstance(plain, dict):
        theirs = dict(tree["items"]) if kind == "dict" else None
        if theirs is None or set(theirs) != {str(key) for key in plain}:
            yield _structure(path, f"a dict with keys {sorted(map(str, plain))}", _say(tree))
        else:
            for key, item in plain.items():
                deeper = exact[key] if exact is not None else None
                yield from _walk(f"{path}[{key!r}]", item, deeper, theirs[str(key)], got[str(key)], tolerances)
        return
    if isinstance(plain, float) and isinstance(got, (int, float)):
        wide = torch.tensor([plain if exact is None else float(exact)], dtype=torch.float64)
        numbers = _values(torch.tensor([plain]), wide, torch.tensor([float(got)]), tolerances)
        yield {"path": path, "kind": "values", **numbers}
        return
    if plain is None or isinstance(plain, (bool, int, str)):
        same = type(plain) is type(got) and plain == got and kind in ("scalar",)
        yield {
            "path": path,
            "kind": "values",
            **_counts(total=1, mismatched=0 if same else 1, max_abs=None, max_rel=None),
        }
        return
    yield _structure(path, type(plain).__name__, _say(tree))


def _structure(path: str, expected: str, got: str) -> dict[str, Any]:
    return {"path": path, "kind": "structure", "expected": expected, "got": got}


def _say(tree: Any) -> str:
    kind = tree.get("t")
    if kind in ("tuple", "list", "dict"):
        return f"a {kind} of {len(tree['items'])}"
    if kind == "tensor":
        return "a tensor"
    return str(tree.get("type", "None" if tree.get("v", "") is None else kind))


def _counts(**numbers: Any) -> dict[str, Any]:
    return {"nonfinite_mismatched": 0, "golden_rms": None, "own_error": None, **numbers}


def _values(plain: torch.Tensor, exact: Any, got: torch.Tensor, tolerances: dict[str, Any]) -> dict[str, Any]:
    name = str(plain.dtype).removeprefix("torch.")
    got = got.to(plain.device)
    total = plain.numel()
    if not (plain.is_floating_point() or plain.is_complex()):
        mismatched = int((plain != got).sum()) if total else 0
        return _counts(total=total, mismatched=mismatched, max_abs=None, max_rel=None)
    usable = isinstance(exact, torch.Tensor) and exact.shape == plain.shape
    wide = exact if usable else plain
    flat = [_real(t).reshape(-1) for t in (plain, wide, got)]
    rms, own_error = _scale(flat[0], flat[1])
    rtol, atol = tolerances["rtol"][name], tolerances["atol_rms"][name] * rms
    floor = tolerances["own_error_factor"] * own_error if usable else 0.0
    max_abs = max_rel = 0.0
    mismatched = nonfinite = 0
    for ours, truth, theirs in zip(*(torch.split(t, _CHUNK) for t in flat), strict=True):
        truth, theirs, ours = truth.double(), theirs.double(), ours.double()
        truth = torch.where(torch.isfinite(truth), truth, ours)
        error = (theirs - truth).abs()
        allowed = (rtol * truth.abs() + atol).clamp_min(floor)
        both = torch.isfinite(theirs) & torch.isfinite(truth)
        # Where the reference gives NaN or an infinity the candidate gives the same one, or the true finite value.
        same_special = (theirs == ours) | (theirs.isnan() & ours.isnan())
        special = ~torch.isfinite(theirs) | ~torch.isfinite(truth)
        bad_special = special & ~same_special
        # An output that the float64 run found finite and float32 did not: either is accepted above.
        bad = (both & ~(error <= allowed)) | bad_special
        nonfinite += int(bad_special.sum())
        mismatched += int(bad.sum())
        if bool(both.any()):
            max_abs = max(max_abs, float(error[both].max()))
            max_rel = max(max_rel, float((error[both] / (truth[both].abs() + max(rms, 1e-300) * 1e-3)).max()))
    return {
        "total": flat[0].numel(),
        "mismatched": mismatched,
        "nonfinite_mismatched": nonfinite,
        "max_abs": max_abs,
        "max_rel": max_rel,
        "golden_rms": rms,
        "own_error": own_error if usable else None,
    }


def _scale(plain: torch.Tensor, wide: torch.Tensor) -> tuple[float, float]:
    """RMS of the golden, and the reference's own largest error against float64; finite elements only."""
    squares, count, own = 0.0, 0, 0.0
    for ours, truth in zip(torch.split(plain, _CHUNK), torch.split(wide, _CHUNK), strict=True):
        ours, truth = ours.double(), truth.double()
        finite = torch.isfinite(ours) & torch.isfinite(truth)
        if not bool(finite.any()):
            continue
        squares += float(truth[finite].square().sum())
        count += int(finite.sum())
        own = max(own, float((ours - truth)[finite].abs().max()))
    return (math.sqrt(squares / count) if count else 0.0), own


def _real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def digest(tensors: Sequence[torch.Tensor]) -> str:
    """A cheap fingerprint of contents: equal for equal bytes."""
    parts = []
    for tensor in tensors:
        data = tensor.contiguous().reshape(-1).view(torch.uint8)
        total = 0
        for piece in torch.split(data, _CHUNK):
            weights = torch.arange(piece.numel(), device=piece.device, dtype=torch.int64) % 251 + 1
            total = (total * 31 + int((piece.long() * weights).sum())) % (1 << 61)
        parts.append(f"{list(tensor.shape)}:{total:x}")
    return ";".join(parts)
