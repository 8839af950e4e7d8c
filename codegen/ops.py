"""Elementwise operations: which ATen ops the kernels can compute, and the C++ expression of each.

Comes in: a node of the trace. Goes out: its operands in order, and an expression in which ``{name}`` stands
for an operand. Formulas follow PyTorch's documented definitions, accurate ``float`` functions only; NaN goes
through comparisons the way PyTorch lets it.
"""

from __future__ import annotations

from dataclasses import dataclass

from stitchcuda.codegen.trace import Arg, Named, Node, Ref, TensorSpec

__all__ = ["HELPERS", "STORAGE", "Operand", "bind", "c_type", "expression", "is_elementwise", "literal", "rule_of"]

# Storage type in memory, by dtype. Arithmetic is in float for the floating ones.
STORAGE = {
    "float32": "float",
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "int64": "long long",
    "int32": "int",
    "bool": "bool",
}
SCALED = ("add", "sub", "subtract", "rsub")
"""Their ``alpha`` multiplies one operand."""
FLOATING = ("float32", "float16", "bfloat16")


@dataclass(frozen=True)
class Rule:
    """``params`` are (name, default) as in the ATen schema; ``...`` marks a required one."""

    params: tuple[tuple[str, object], ...]
    code: str
    helper: str = ""
    result: str = "same"
    """``same``: computed in the result's type; ``bool``: operands keep their own types."""
    integers: bool = False


@dataclass(frozen=True)
class Operand:
    """A bound argument: a tensor, or a scalar that the kernel holds as a constant."""

    name: str
    value: Arg


def _unary(code: str, helper: str = "", *extra: tuple[str, object], integers: bool = False) -> Rule:
    return Rule((("self", ...), *extra), code, helper, integers=integers)


def _binary(code: str, *extra: tuple[str, object], result: str = "same", helper: str = "") -> Rule:
    return Rule((("self", ...), ("other", ...), *extra), code, helper, result, integers=True)


HELPERS = {
    "nan_max": "float nan_max(float a, float b) { return a != a ? a : (b != b ? b : (a > b ? a : b)); }",
    "nan_min": "float nan_min(float a, float b) { return a != a ? a : (b != b ? b : (a < b ? a : b)); }",
    "sigmoid": "float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }",
    "silu": "float silu(float x) { return x / (1.0f + expf(-x)); }",
    "gelu": "float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f)); }",
    "gelu_tanh": (
        "float gelu_tanh(float x)"
        " { return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x))); }"
    ),
    "mish": "float mish(float x) { return x * tanhf(x > 20.0f ? x : log1pf(expf(x))); }",
    "softplus": (
        "float softplus(float x, float beta, float threshold)"
        " { return x * beta > threshold ? x : log1pf(expf(x * beta)) / beta; }"
    ),
    "elu": (
        "float elu(float x, float alpha, float scale, float input_scale)"
        " { return x <= 0.0f ? alpha * scale * expm1f(x * input_scale) : x * scale; }"
    ),
    "clamp": "float clamp(float x, float low, float high) { x = x < low ? low : x; return x > high ? high : x; }",
    "log_sigmoid": "float log_sigmoid(float x) { return fminf(x, 0.0f) - log1pf(expf(-fabsf(x))); }",
    "sign": "float sign(float x) { return x > 0.0f ? 1.0f : (x < 0.0f ? -1.0f : x); }",
    "round_half": "float round_half(float x) { return __half2float(__float2half(x)); }",
    "round_bfloat16": "float round_bfloat16(float x) { return __bfloat162float(__float2bfloat16(x)); }",
}
"""Device functions that a rule may call; each is written into a candidate only when it is used."""

_SELU = (1.6732632423543772, 1.0507009873554805)

RULES: dict[str, Rule] = {
    "relu": _unary("{self} < 0.0f ? 0.0f : {self}"),
    "relu6": _unary("clamp({self}, 0.0f, 6.0f)", "clamp"),
    "leaky_relu": _unary("{self} > 0.0f ? {self} : {self} * {negative_slope}", "", ("negative_slope", 0.01)),
    "sigmoid": _unary("sigmoid({self})", "sigmoid"),
    "silu": _unary("silu({self})", "silu"),
    "tanh": _unary("tanhf({self})"),
    "mish": _unary("mish({self})", "mish"),
    "softplus": _unary("softplus({self}, {beta}, {threshold})", "softplus", ("beta", 1.0), ("threshold", 20.0)),
    "elu": _unary(
        "elu({self}, {alpha}, {scale}, {input_scale})",
        "elu",
        ("alpha", 1.0),
        ("scale", 1.0),
        ("input_scale", 1.0),
    ),
    "selu": _unary(f"elu({{self}}, {_SELU[0]}f, {_SELU[1]}f, 1.0f)", "elu"),
    "hardtanh": _unary("clamp({self}, {min_val}, {max_val})", "clamp", ("min_val", -1.0), ("max_val", 1.0)),
    "hardswish": _unary("{self} * clamp({self} + 3.0f, 0.0f, 6.0f) / 6.0f", "clamp"),
    "hardsigmoid": _unary("clamp({self} + 3.0f, 0.0f, 6.0f) / 6.0f", "clamp"),
    "log_sigmoid": _unary("log_sigmoid({self})", "log_sigmoid"),
    "threshold": _unary("{self} <= {threshold} ? {value} : {self}", "", ("threshold", ...), ("value", ...)),
    "exp": _unary("expf({self})"),
    "exp2": _unary("exp2f({self})"),
    "expm1": _unary("expm1f({self})"),
    "log": _unary("logf({self})"),
    "log1p": _unary("log1pf({self})"),
    "log2": _unary("log2f({self})"),
    "log10": _unary("log10f({self})"),
    "sqrt": _unary("sqrtf({self})"),
    "rsqrt": _unary("1.0f / sqrtf({self})"),
    "reciprocal": _unary("1.0f / {self}"),
    "sin": _unary("sinf({self})"),
    "cos": _unary("cosf({self})"),
    "erf": _unary("erff({self})"),
    "floor": _unary("floorf({self})"),
    "ceil": _unary("ceilf({self})"),
    "round": _unary("rintf({self})"),
    "trunc": _unary("truncf({self})"),
    "sign": _unary("sign({self})", "sign"),
    "abs": _unary("{self} < 0 ? -{self} : {self}", integers=True),
    "neg": _unary("-{self}", integers=True),
    "square": _unary("{self} * {self}", integers=True),
    "expand": _unary("{self}", "", ("size", None), ("implicit", None), integers=True),
    "expand_as": _unary("{self}", "", ("other", None), integers=True),
    "to.dtype": _unary(
        "{self}", "", ("dtype", None), ("non_blocking", None), ("copy", None), ("memory_format", None), integers=True
    ),
    "_to_copy": _unary("{self}", "", ("dtype", None), integers=True),
    "add": _binary("{self} + {other}", ("alpha", 1)),
    "sub": _binary("{self} - {other}", ("alpha", 1)),
    "rsub": _binary("{other} - {self}", ("alpha", 1)),
    "mul": _binary("{self} * {other}"),
    "div.Tensor": Rule((("self", ...), ("other", ...)), "{self} / {other}"),
    "div.Scalar": Rule((("self", ...), ("other", ...)), "{self} / {other}"),
    "maximum": Rule((("self", ...), ("other", ...)), "nan_max({self}, {other})", "nan_max"),
    "minimum": Rule((("self", ...), ("other", ...)), "nan_min({self}, {other})", "nan_min"),
    "addcmul": Rule(
        (("self", ...), ("tensor1", ...), ("tensor2", ...), ("value", 1)), "{self} + {value} * {tensor1} * {tensor2}"
    ),
    "addcdiv": Rule(
        (("self", ...), ("tensor1", ...), ("tensor2", ...), ("value", 1)), "{self} + {value} * ({tensor1} / {tensor2})"
    ),
    "lerp": Rule((("self", ...), ("end", ...), ("weight", ...)), "{self} + {weight} * ({end} - {self})"),
    "eq": _binary("{self} == {other}", result="bool"),
    "ne": _binary("{self} != {other}", result="bool"),
    "lt": _binary("{self} < {other}", result="bool"),
    "le": _binary("{self} <= {other}", result="bool"),
    "gt": _binary("{self} > {other}", result="bool"),
    "ge": _binary("{self} >= {other}", result="bool"),
    "logical_and": _binary("{self} && {other}", result="bool"),
    "logical_or": _binary("{self} || {other}", result="bool"),
    "logical_not": Rule((("self", ...),), "!{self}", result="bool", integers=True),
    "where": Rule((("condition", ...), ("self", ...), ("other", ...)), "{condition} ? {self} : {other}", integers=True),
    "masked_fill": Rule((("self", ...), ("mask", ...), ("value", ...)), "{mask} ? {value} : {self}", integers=True),
}
for _alias, _name in (
    ("multiply", "mul"),
    ("subtract", "sub"),
    ("divide.Tensor", "div.Tensor"),
    ("true_divide", "div.Tensor"),
    ("max.other", "maximum"),
    ("min.other", "minimum"),
    ("negative", "neg"),
    ("absolute", "abs"),
    ("clip", "clamp"),
):
    if _name in RULES:
        RULES[_alias] = RULES[_name]


def rule_of(node: Node) -> Rule | None:
    """The rule of an op node; rules that depend on argument values are made here."""
    if node.kind != "op":
        return None
    name = node.target.removeprefix("aten.")
    packet = name.split(".")[0]
    arguments = dict(node.kwargs)
    if packet == "gelu":
        kind = arguments.get("approximate", node.args[1] if len(node.args) > 1 else "none")
        function = "gelu_tanh" if kind == "tanh" else "gelu"
        return Rule((("self", ...), ("approximate", "none")), f"{function}({{self}})", function)
    if packet in ("clamp", "clip", "clamp_min", "clamp_max"):
        return _clamp(node, packet)
    if packet == "pow":
        return _pow(node)
    if packet == "dropout" and _is_identity_dropout(node):
        return _unary("{self}", "", ("p", None), ("train", None))
    return RULES.get(name) or RULES.get(packet)


def _is_identity_dropout(node: Node) -> bool:
    return len(node.args) == 3 and (node.args[1] == 0 or node.args[2] is False)


def _clamp(node: Node, packet: str) -> Rule:
    low = packet != "clamp_max" and (node.kwargs.get("min", node.args[1] if len(node.args) > 1 else None) is not None)
    high_position = 1 if packet == "clamp_max" else 2
    high = packet != "clamp_min" and (
        node.kwargs.get("max", node.args[high_position] if len(node.args) > high_position else None) is not None
    )
    params: tuple[tuple[str, object], ...] = (("self", ...),)
    if packet != "clamp_max":
        params += (("min", None),)
    if packet != "clamp_min":
        params += (("max", None),)
    if low and high:
        return Rule(params, "clamp({self}, {min}, {max})", "clamp")
    if low:
        return Rule(params, "{self} < {min} ? {min} : {self}", integers=True)
    return Rule(params, "{self} > {max} ? {max} : {self}", integers=True)


def _pow(node: Node) -> Rule | None:
    params = (("self", ...), ("exponent", ...))
    codes = {
        2.0: "{self} * {self}",
        3.0: "{self} * {self} * {self}",
        4.0: "({self} * {self}) * ({self} * {self})",
        0.5: "sqrtf({self})",
        -0.5: "1.0f / sqrtf({self})",
        -1.0: "1.0f / {self}",
        -2.0: "1.0f / ({self} * {self})",
    }
    exponent = node.args[1] if len(node.args) > 1 else None
    if isinstance(exponent, int | float) and float(exponent) in codes:
        return Rule(params, codes[float(exponent)])
    return Rule(params, "powf({self}, {exponent})")


def bind(node: Node, rule: Rule) -> dict[str, Arg]:
    """Arguments by their schema name, defaults filled in."""
    bound: dict[str, Arg] = {}
    for position, (name, default) in enumerate(rule.params):
        if position < len(node.args):
            bound[name] = node.args[position]
        elif name in node.kwargs:
            bound[name] = node.kwargs[name]
        elif default is ...:
            raise KeyError(f"{node.target} lacks its argument {name!r}")
        else:
            bound[name] = default  # type: ignore[assignment]
    return bound


def operands(node: Node, rule: Rule) -> tuple[Operand, ...]:
    """The arguments that the expression really uses, in schema order."""
    bound = bind(node, rule)
    used = [name for name, _ in rule.params if "{" + name + "}" in rule.code]
    if node.op.rstrip("_") in SCALED and bound.get("alpha", 1) != 1:
        used.append("alpha")
    return tuple(Operand(name, bound[name]) for name in used)


def is_elementwise(node: Node, specs: dict[str, TensorSpec]) -> str:
    """Empty when a kernel can compute ``node``, else the reason why not."""
    rule = rule_of(node)
    if rule is None:
        return "no elementwise form"
    extra = set(node.kwargs) - {name for name, _ in rule.params}
    if node.multiple or len(node.args) > len(rule.params) or any(node.kwargs[name] is not None for name in extra):
        return "an unusual form of the operation"
    if node.spec.dtype not in STORAGE:
        return f"{node.spec.dtype} stays with PyTorch"
    if node.spec.dtype not in FLOATING and rule.result != "bool" and not rule.integers:
        return f"{node.spec.dtype} arithmetic stays with PyTorch"
    if node.spec.dtype == "bool" and rule.result != "bool" and node.op not in ("where", "masked_fill", "expand"):
        return "boolean arithmetic stays with PyTorch"
    if len(node.spec.shape) > 8:
        return "more than eight dimensions"
    for operand in operands(node, rule):
        value = operand.value
        if isinstance(value, Ref):
            spec = specs.get(value.node)
            if spec is None or spec.dtype not in STORAGE:
                return "an operand whose type stays with PyTorch"
        elif not isinstance(value, bool | int | float) and not (isinstance(value, Named) and value.kind == "float"):
            return "an argument that is neither tensor nor number"
    return ""


def c_type(dtype: str) -> str:
    """The type of a value in registers."""
    return "float" if dtype in FLOATING else STORAGE[dtype]


def literal(value: Arg, target: str) -> str:
    """A C++ literal of ``value`` in register type ``target``."""
    if isinstance(value, Named):
        return {"inf": "INFINITY", "-inf": "-INFINITY"}.get(value.name, "NAN")
    assert isinstance(value, bool | int | float)
    if target == "bool":
        return "true" if value else "false"
    if target == "float":
        text = repr(float(value)) + "f"
        return f"({text})" if value < 0 else text
    if isinstance(value, float) and not value.is_integer():
        return repr(value)
    text = f"{int(value)}LL" if target == "long long" else str(int(value))
    return f"({text})" if value < 0 else text


def expression(node: Node, rule: Rule, names: dict[str, tuple[str, str]]) -> str:
    """C++ expression of ``node``.

    Args:
        names: operand name to (C++ expression, its register type). A scalar constant has its type already.
    """
    target = c_type(node.spec.dtype)
    text = {}
    for name, (code, kind) in names.items():
        keep = rule.result == "bool" or kind == target or name in ("condition", "mask")
        text[name] = code if keep else f"static_cast<{target}>({code})"
    if node.op in SCALED and "alpha" in text:
        scaled = "self" if node.op == "rsub" else "other"
        text[scaled] = f"({text['alpha']} * {text[scaled]})"
    code = rule.code.format(**text)
    if node.op in ("to", "_to_copy") and node.spec.dtype in ("float16", "bfloat16"):
        return f"{'round_half' if node.spec.dtype == 'float16' else 'round_bfloat16'}({code})"
    if node.op in ("to", "_to_copy") and node.spec.dtype == "bool":
        return f"({names['self'][0]} != 0)"
    return code
