"""Ops that stay with PyTorch, as readable Python calls.

Comes in: a node and the Python text of its operands. Goes out: one expression. Ops without a usual spelling are
called as ``torch.ops.aten.<op>.<overload>``, which takes the traced arguments as they are.
"""

from __future__ import annotations

from collections.abc import Callable

from stitchcuda.codegen.trace import Arg, Named, Node, Ref
from stitchcuda.codegen.words import words

__all__ = ["ArgumentWriter", "attribute_path", "call"]

ArgumentWriter = Callable[[Arg], str]

FUNCTIONAL = words(
    """
    linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d layer_norm group_norm gelu mish
    leaky_relu silu hardtanh hardswish hardsigmoid softplus elu selu celu relu6 avg_pool2d avg_pool3d
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d scaled_dot_product_attention dropout pad
    pixel_shuffle one_hot
    """
)
"""Same argument order in ``torch.nn.functional`` as in the ATen schema."""
TORCH = words(
    """
    matmul bmm mm addmm baddbmm cat stack einsum softmax log_softmax relu sigmoid tanh exp log sqrt rsqrt abs square
    mean sum amax amin logsumexp maximum minimum where max_pool1d max_pool2d max_pool3d avg_pool1d chunk split
    flatten cumsum cumprod flip roll tril triu clamp pow topk argmax argmin var std gru lstm rnn_tanh rnn_relu
    unbind squeeze unflatten prod outer norm erf neg masked_fill
    """
)
"""Same argument order in ``torch`` as in the ATen schema."""
METHODS = words(
    """
    permute transpose unsqueeze expand expand_as contiguous clone narrow unfold t repeat
    """
)
OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "gt": ">", "lt": "<", "ge": ">=", "le": "<=", "eq": "=="}
FACTORIES = {"zeros", "ones", "full", "arange", "randn", "rand", "empty", "linspace", "eye"}


def call(node: Node, write: ArgumentWriter) -> str:
    """The Python expression of ``node``."""
    name = node.target.removeprefix("aten.")
    packet, _, overload = name.partition(".")
    args = [write(item) for item in node.args]
    kwargs = {key: write(value) for key, value in node.kwargs.items() if not _is_noise(key, value)}
    if name == "getitem":
        return f"{args[0]}[{args[1]}]"
    if packet in ("view", "reshape") and overload == "default":
        # A kernel's result is contiguous where PyTorch's may be a view; reshape accepts both.
        return f"{args[0]}.reshape({_spread(args[1])})"
    if packet == "flatten":
        return f"{args[0]}.flatten({', '.join(args[1:])})"
    if packet == "batch_norm":
        x, weight, bias, mean, var, training, momentum, eps = args[:8]
        return (
            f"F.batch_norm({x}, {mean}, {var}, {weight}, {bias}, training={training}, momentum={momentum}, eps={eps})"
        )
    if packet == "instance_norm":
        x, weight, bias, mean, var, use_input, momentum, eps = args[:8]
        state = f"running_mean={mean}, running_var={var}, weight={weight}, bias={bias}"
        return f"F.instance_norm({x}, {state}, use_input_stats={use_input}, momentum={momentum}, eps={eps})"
    if packet in OPERATORS and len(args) == 2 and not kwargs:
        return f"{args[0]} {OPERATORS[packet]} {args[1]}"
    if packet == "slice" and len(args) >= 2 and isinstance(node.args[1], int):
        return f"{args[0]}[{_slice(node.args[1], args[2:])}]"
    if packet == "select" and isinstance(node.args[1], int) and 0 <= node.args[1] <= 4:
        return f"{args[0]}[{':, ' * node.args[1]}{args[2]}]"
    if packet == "numpy_T":
        return f"{args[0]}.T"
    if packet == "to" and overload == "dtype" and len(args) >= 2:
        return f"{args[0]}.to({args[1]})"
    if packet in FACTORIES and overload in ("default", "start", "start_step", ""):
        return _join(f"torch.{packet}", args, kwargs)
    if packet == "layer_norm":
        args = args[:5]
    if packet == "group_norm":
        args = args[:5]
    if packet in FUNCTIONAL:
        return _join(f"F.{packet}", args, kwargs)
    if packet in TORCH and not (packet in ("norm", "std", "var", "mean", "sum") and overload == "names_dim"):
        return _join(f"torch.{packet}", args, kwargs)
    if packet in METHODS or packet.endswith("_"):
        return _join(f"{args[0]}.{packet}", args[1:], kwargs)
    full = {key: write(value) for key, value in node.kwargs.items() if key != "pin_memory"}
    return _join(f"torch.ops.aten.{packet}.{overload}", args, full)


def _is_noise(key: str, value: Arg) -> bool:
    """Keyword arguments that say nothing."""
    if key == "pin_memory":
        return not value
    return key == "layout" and isinstance(value, Named) and value.name == "strided"


def _join(function: str, args: list[str], kwargs: dict[str, str]) -> str:
    return f"{function}({', '.join([*args, *[f'{key}={value}' for key, value in kwargs.items()]])})"


def _spread(text: str) -> str:
    """``[a, b]`` as ``a, b``."""
    return text[1:-1] if text.startswith("[") and text.endswith("]") and len(text) > 2 else text


def _slice(dim: int, rest: list[str]) -> str:
    start = rest[0] if rest and rest[0] not in ("None", "0") else ""
    end = rest[1] if len(rest) > 1 and rest[1] not in ("None", str(2**63 - 1)) else ""
    step = f":{rest[2]}" if len(rest) > 2 and rest[2] != "1" else ""
    return (
        (":, " * dim if dim >= 0 else "..., " + "") + f"{start}:{end}{step}" + (", :" * (-1 - dim) if dim < -1 else "")
    )


def attribute_path(path: str) -> str:
    """``layers.0.weight`` as ``self.layers[0].weight``."""
    text = "self"
    for part in path.split("."):
        text += f"[{part}]" if part.isdigit() else (f".{part}" if part.isidentifier() else f"[{part!r}]")
    return text


def refs_only(value: Arg) -> bool:
    """Whether an argument is a tensor or a list of tensors."""
    return isinstance(value, Ref) or (isinstance(value, tuple) and bool(value) and all(refs_only(v) for v in value))
