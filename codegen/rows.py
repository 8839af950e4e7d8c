"""Row reductions: ops that reduce the trailing dimensions of a tensor.

Comes in: an op node and the specs of its inputs. Goes out: what is reduced, over how many trailing dimensions,
and with which parameters; or the reason why the op is no row reduction.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stitchcuda.codegen.trace import Arg, Node, Ref, TensorSpec

__all__ = ["FEW_ROWS", "Reduction", "padded", "row_operand_fits", "row_reduction"]

FEW_ROWS = 64
"""With fewer rows than this, one block per row leaves most of a GPU idle …"""
LONG_ROW_ELEMENTS = 65536
"""… which matters when each row is long: such reductions stay with PyTorch's two-stage kernels."""


@dataclass(frozen=True)
class Reduction:
    """One reduction over the last ``dims`` dimensions of ``source``."""

    kind: str
    """``sum mean amax amin logsumexp norm1 norm2 var std`` give one value per row; ``softmax log_softmax
    layer_norm rms_norm`` give a whole row."""
    source: str
    dims: int
    keepdim: bool = True
    weight: str = ""
    bias: str = ""
    eps: Arg = 0.0
    correction: Arg = 1
    extra: dict[str, Arg] = field(default_factory=dict)

    @property
    def wide(self) -> bool:
        """The result has the whole domain's shape."""
        return self.kind in ("softmax", "log_softmax", "layer_norm", "rms_norm")


def row_reduction(node: Node, specs: dict[str, TensorSpec]) -> Reduction | str:
    """The reduction that ``node`` does, or why it is none that the row kernels cover."""
    if node.kind != "op" or not node.args or not isinstance(node.args[0], Ref):
        return "no reduction"
    source = node.args[0].node
    spec = specs.get(source)
    reduction = _recognise(node, source, spec) if spec is not None else None
    if reduction is None or spec is None:
        return "no reduction"
    if isinstance(reduction, str):
        return reduction
    if spec.dtype not in ("float32", "float16", "bfloat16") or node.multiple or node.spec.dtype != spec.dtype:
        return f"a reduction of {spec.dtype} stays with PyTorch"
    if len(spec.shape) > 8:
        return "more than eight dimensions"
    length = 1
    for size in spec.shape[len(spec.shape) - reduction.dims :]:
        length *= size
    rows = spec.numel // max(length, 1)
    if length <= 1 or rows < 1:
        return "rows of one element"
    if rows < FEW_ROWS and length > LONG_ROW_ELEMENTS:
        return f"only {rows} rows of {length} elements: a reduction in two stages is needed"
    return reduction


def _recognise(node: Node, source: str, spec: TensorSpec | None) -> Reduction | str | None:
    if spec is None:
        return None
    rank = len(spec.shape)
    args, kwargs = node.args, node.kwargs

    def arg(position: int, name: str, default: Arg = None) -> Arg:
        return args[position] if len(args) > position else kwargs.get(name, default)

    target = node.target.removeprefix("aten.")
    if target in ("softmax.int", "log_softmax.int"):
        if arg(2, "dtype") is not None:
            return "a softmax with another dtype"
        return _over(target.split(".")[0], source, arg(1, "dim"), rank, True)
    if target in ("_softmax.default", "_log_softmax.default"):
        return _over(target.split(".")[0][1:], source, arg(1, "dim"), rank, True)
    if target in ("layer_norm.default", "rms_norm.default"):
        shape = arg(1, "normalized_shape", ())
        assert isinstance(shape, tuple)
        weight, bias = arg(2, "weight"), arg(3, "bias") if target.startswith("layer") else None
        eps = arg(4, "eps", 1e-5) if target.startswith("layer") else arg(3, "eps")
        return Reduction(
            target.split(".")[0],
            source,
            len(shape),
            weight=weight.node if isinstance(weight, Ref) else "",
            bias=bias.node if isinstance(bias, Ref) else "",
            eps=1.1920928955078125e-07 if eps is None else eps,
        )
    if target in ("sum.dim_IntList", "mean.dim"):
        if arg(3, "dtype") is not None:
            return "a reduction with another dtype"
        return _over(target.split(".")[0], source, arg(1, "dim"), rank, bool(arg(2, "keepdim", False)))
    if target in ("sum.default", "mean.default"):
        return "no rows: the whole tensor becomes one number" if arg(1, "dtype") is None else None
    if target in ("amax.default", "amin.default", "logsumexp.default"):
        return _over(target.split(".")[0], source, arg(1, "dim"), rank, bool(arg(2, "keepdim", False)))
    if target == "linalg_vector_norm.default" and arg(1, "ord", 2) in (1, 2) and arg(4, "dtype") is None:
        kind = "norm1" if arg(1, "ord", 2) == 1 else "norm2"
        return _over(kind, source, arg(2, "dim"), rank, bool(arg(3, "keepdim", False)))
    if target == "norm.ScalarOpt_dim" and arg(1, "p") in (1, 2):
        kind = "norm1" if arg(1, "p") == 1 else "norm2"
        return _over(kind, source, arg(2, "dim"), rank, bool(arg(3, "keepdim", False)))
    if target in ("var.correction", "std.correction", "var.dim", "std.dim"):
        kind = target.split(".")[0]
        if target.endswith("correction"):
            keepdim, correction = kwargs.get("keepdim", False), kwargs.get("correction", 1)
        else:
            keepdim, correction = arg(3, "keepdim", False), int(bool(arg(2, "unbiased", True)))
        found = _over(kind, source, arg(1, "dim"), rank, bool(keepdim))
        if isinstance(found, str):
            return found
        return Reduction(kind, source, found.dims, found.keepdim, correction=1 if correction is None else correction)
    if target.startswith("adaptive_avg_pool") and target.endswith("d.default"):
        size = arg(1, "output_size", ())
        if isinstance(size, tuple) and all(item == 1 for item in size):
            return Reduction("mean", source, len(size))
        return "a pooling window"
    return None


def _over(kind: str, source: str, dim: Arg, rank: int, keepdim: bool) -> Reduction | str:
    """A reduction over ``dim`` if that means the last dimensions."""
    if isinstance(dim, int):
        chosen = {dim % rank} if rank else set()
    elif isinstance(dim, tuple) and dim:
        chosen = {item % rank for item in dim if isinstance(item, int)}
    else:
        return "no rows: the whole tensor becomes one number"
    if chosen != set(range(rank - len(chosen), rank)):
        return f"{kind} over dimension {', '.join(map(str, sorted(chosen)))} of {rank}: not over the last ones"
    if len(chosen) == rank and not keepdim:
        return "no rows: the whole tensor becomes one number"
    return Reduction(kind, source, len(chosen), keepdim)


def padded(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """``shape`` with ones in front, as broadcasting sees it."""
    return (1,) * (rank - len(shape)) + shape


def row_operand_fits(shape: tuple[int, ...], domain: tuple[int, ...], dims: int) -> bool:
    """Whether a row kernel can read an operand: within a row it must be either dense or constant."""
    if len(shape) > len(domain):
        return False
    inner = padded(shape, len(domain))[len(domain) - dims :]
    return inner == domain[len(domain) - dims :] or all(size == 1 for size in inner)
