"""Operators by what they are for a policy: glue, library calls, own computation. Pure.

*Glue* makes, views, copies or converts tensors. *Library* operators are what cuBLAS and cuDNN do for PyTorch: matrix
products and convolutions (and recurrent networks, which are cuDNN's as a whole). Everything else computes.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["HOST_READ", "LOG_OFF", "Kind", "families_of", "kind_of"]

HOST_READ = "host::read"
"""Pseudo-operator: elements that went to numpy or to Python lists."""
LOG_OFF = "host::log_switched_off"
"""Pseudo-operator: the dispatcher's log does not even hold what was put there on purpose."""

Kind = Literal["glue", "library", "compute"]

_GLUE = {
    *(
        "empty",
        "empty_like",
        "empty_strided",
        "empty_permuted",
        "new_empty",
        "new_empty_strided",
        "zeros",
        "zeros_like",
    ),
    *("new_zeros", "ones", "ones_like", "new_ones", "full", "full_like", "new_full", "zero_", "fill_", "scalar_tensor"),
    *("view", "_unsafe_view", "view_as", "reshape", "reshape_as", "_reshape_alias", "flatten", "unflatten", "squeeze"),
    *("squeeze_", "unsqueeze", "unsqueeze_", "expand", "expand_as", "permute", "transpose", "transpose_", "t", "t_"),
    *("numpy_T", "movedim", "swapaxes", "swapdims", "select", "slice", "narrow", "split", "split_with_sizes", "chunk"),
    *("unbind", "unfold", "as_strided", "as_strided_", "diagonal", "alias", "detach", "detach_", "view_as_real"),
    *("view_as_complex", "resolve_conj", "resolve_neg", "lift_fresh", "lift", "real", "imag", "broadcast_to"),
    *("contiguous", "clone", "copy_", "_to_copy", "to", "type_as", "float", "double", "half", "cpu", "cuda"),
    *("_copy_from", "pin_memory", "is_pinned", "_pin_memory", "set_", "resize_", "resize_as_", "record_stream"),
    *("cat", "stack", "concat", "repeat", "constant_pad_nd", "arange"),
    *("item", "_local_scalar_dense", "is_nonzero", "size", "stride", "numel", "is_same_size", "broadcast_tensors"),
    *("is_floating_point", "is_complex", "result_type", "can_cast", "_has_compatible_shallow_copy_type", "data"),
    *("requires_grad_", "random_", "manual_seed", "storage_offset", "dim", "is_contiguous", "expand_copy"),
}
_LIBRARY = {
    *("mm", "bmm", "addmm", "baddbmm", "addbmm", "matmul", "linear", "dot", "mv", "addmv", "vdot", "ger", "addr"),
    *(
        "einsum",
        "bilinear",
        "_addmm_activation",
        "_int_mm",
        "_scaled_mm",
        "tensordot",
        "inner",
        "outer",
        "chain_matmul",
    ),
    *("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution"),
    *("_convolution", "cudnn_convolution", "cudnn_convolution_transpose", "mkldnn_convolution", "thnn_conv2d"),
    *("slow_conv3d", "_conv_depthwise2d", "conv_depthwise3d", "_slow_conv2d_forward", "cudnn_convolution_relu"),
    *(
        "gru",
        "lstm",
        "rnn_tanh",
        "rnn_relu",
        "_cudnn_rnn",
        "_thnn_fused_gru_cell",
        "_thnn_fused_lstm_cell",
        "mkldnn_linear",
    ),
    *("mkldnn_rnn_layer", "mkldnn_convolution", "_mps_convolution"),
}
_FAMILIES: dict[str, set[str]] = {
    "selection": {
        *("relu", "relu6", "clamp", "clamp_min", "clamp_max", "threshold", "maximum", "minimum", "where", "hardtanh"),
        *("leaky_relu", "gt", "ge", "lt", "le", "eq", "ne", "abs", "sign", "masked_fill", "fmax", "fmin", "heaviside"),
        *("hardswish", "hardsigmoid", "hardshrink", "softshrink", "prelu", "max", "min", "logical_not"),
    },
    "arithmetic": {
        *("add", "sub", "mul", "div", "rsub", "neg", "addcmul", "addcdiv", "lerp", "square", "pow", "sqrt", "rsqrt"),
        *("reciprocal", "true_divide", "floor_divide", "remainder", "fmod", "round", "floor", "ceil", "trunc"),
    },
    "transcendental": {
        *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sigmoid", "tanh", "gelu", "silu", "mish", "elu"),
        *(
            "softplus",
            "erf",
            "sin",
            "cos",
            "tan",
            "atan",
            "sinh",
            "cosh",
            "_softmax",
            "_log_softmax",
            "softmax",
            "selu",
        ),
        *("logsumexp", "log_sigmoid", "logit", "celu", "pow", "xlogy", "glu", "log_softmax"),
    },
    "reduction": {
        *("sum", "mean", "var", "std", "var_mean", "amax", "amin", "max", "min", "prod", "norm", "linalg_vector_norm"),
        *("native_layer_norm", "native_batch_norm", "native_group_norm", "layer_norm", "batch_norm", "group_norm"),
        *("_softmax", "_log_softmax", "softmax", "logsumexp", "argmax", "argmin", "cumsum", "instance_norm", "nansum"),
        *("_fused_rms_norm", "rms_norm", "all", "any", "count_nonzero", "nll_loss_forward", "mse_loss", "log_softmax"),
    },
}
"""What can stand for one another: a softmax spelled as exp, sum and division is still PyTorch's softmax."""


def kind_of(name: str) -> Kind:
    """Of a dispatcher's name such as ``aten::add_``; what is no operator of aten (a marker, a thread) computes."""
    if not name.startswith("aten::"):
        return "compute"
    leaf = _leaf(name)
    if leaf in _GLUE:
        return "glue"
    return "library" if leaf in _LIBRARY else "compute"


def families_of(name: str) -> frozenset[str]:
    """The kinds of work in an operator; one of no family is a family by itself, all library calls are one."""
    if kind_of(name) == "library":
        return frozenset({"library"})
    leaf = _leaf(name)
    found = frozenset(family for family, members in _FAMILIES.items() if leaf in members or leaf[:-1] in members)
    return found or frozenset({leaf})


def _leaf(name: str) -> str:
    return name.removeprefix("aten::").partition(".")[0].removesuffix("_out")
