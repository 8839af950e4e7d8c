"""Small programs for the golden comparison, by what they exercise; each is the body of a ``forward``.

``PROGRAMS[name]`` is (inputs as shape and kind, lines). They are put together into few problems, so that few
extensions are built.
"""

from __future__ import annotations

import textwrap
import types

PROGRAMS: dict[str, tuple[tuple[str, ...], str]] = {
    "chain": (("a: 6, 40",), "return F.gelu(a * 2.0 + 1.0) - torch.tanh(a)"),
    "odd_length": (("a: 5, 7",), "return F.silu(a) * torch.sigmoid(a)"),
    "activations": (
        ("a: 4, 33",),
        """
        b = F.leaky_relu(a, 0.2) + F.elu(a, 1.5) + F.selu(a) + F.softplus(a, 2.0, 3.0) + F.mish(a)
        c = F.hardtanh(a, -0.5, 0.7) + F.hardswish(a) + F.hardsigmoid(a) + F.softsign(a) + F.logsigmoid(a)
        return b * c + F.gelu(a, approximate="tanh") + F.relu6(a) + torch.rsqrt(a.abs() + 1.0)
        """,
    ),
    "math": (
        ("a: 3, 64",),
        """
        b = a.abs() + 0.5
        c = torch.exp(-b) + torch.log(b) + torch.sqrt(b) + b ** 3 + b ** 0.5 + b ** 1.7 + torch.square(a)
        return c.clamp(min=0.1, max=9.0) / (1.0 + torch.clamp(a, min=0.0)) + torch.sin(a) * torch.cos(a)
        """,
    ),
    "broadcast": (
        ("a: 2, 3, 4, 5", "b: 3, 1, 1", "c: 5", "d: 1"),
        "return torch.maximum((a + b) * c - d, torch.minimum(a, c)) / (b * b + 1.0)",
    ),
    "outer": (("a: 6, 1", "b: 1, 8"), "return torch.relu(a * b + a)"),
    "where_and_masks": (
        ("a: 4, 16", "m: bool 4, 16", "i: int 4, 16"),
        """
        b = torch.where(a > 0.25, a, -a * 3.0)
        return b.masked_fill(m, -2.0) + i.float() * 0.5, (i + 3) * 2, (a <= 0.0)
        """,
    ),
    "strided": (
        ("a: 6, 10, 8",),
        "return F.relu(a.transpose(1, 2) + 1.0) * a.transpose(1, 2), a[:, ::2, 1:7] * 2.0 - 1.0",
    ),
    "two_outputs": (("a: 4, 12",), "b = torch.tanh(a) * 2.0\nreturn b + 1.0, b.t() @ b, b"),
    "in_place": (("a: 4, 12",), "b = a * 2.0\nb += 1.0\nF.relu_(b)\nb.mul_(a)\nreturn b - 0.5"),
    "half": (
        ("a: half 4, 16", "b: bfloat16 4, 16"),
        "return a * 2.0 + 1.0, F.gelu(b), a.float() + b.float(), (a.float() * 0.1).half()",
    ),
    "softmax": (("a: 6, 40", "b: 2, 3, 37"), "return torch.softmax(a * 3.0, dim=-1), F.log_softmax(b, dim=2) * 2.0"),
    "masked_attention": (
        ("a: 2, 3, 8, 8", "m: bool 8, 8"),
        "s = (a / 8 ** 0.5).masked_fill(m, float('-inf'))\nreturn torch.softmax(s, dim=-1)",
    ),
    "layer_norm": (
        ("a: 4, 6, 16", "w: 16", "b: 16"),
        "return F.layer_norm(a + 100.0, (16,), w, b) * torch.sigmoid(a), F.layer_norm(a, (6, 16))",
    ),
    "rms_norm": (
        ("a: 4, 48", "w: 48"),
        "return a * torch.rsqrt(a.pow(2).mean(-1, keepdim=True) + 1e-5) * w, F.rms_norm(a, (48,), w, 1e-6)",
    ),
    "row_values": (
        ("a: 5, 4, 9", "s: 4"),
        """
        total = torch.sum(a * a, dim=(1, 2)) + 1.0
        peak = torch.amax(a, dim=-1) * s - 2.0
        low = torch.amin(a, dim=-1, keepdim=True)
        return total, peak, torch.relu(low), a.mean(-1), torch.logsumexp(a, dim=2), a.std(-1), a.var(-1, keepdim=True)
        """,
    ),
    "normalise": (
        ("a: 5, 24",),
        "return F.normalize(a, dim=-1), a - a.mean(-1, keepdim=True), torch.norm(a, 1, dim=1)",
    ),
    "pool": (("a: 2, 6, 5, 7",), "return F.adaptive_avg_pool2d(F.gelu(a), 1).flatten(1) * 3.0"),
    "long_rows": (("a: 3, 2500",), "return torch.softmax(a, -1), F.layer_norm(a, (2500,)) + a"),
}


def source_of(names: list[str]) -> str:
    """One problem that runs several programs and returns a tuple of their results."""
    lines = ["import torch", "import torch.nn as nn", "import torch.nn.functional as F", "", ""]
    arguments: list[str] = []
    makers: list[str] = []
    calls: list[str] = []
    for name in names:
        specs, body = PROGRAMS[name]
        own = []
        for spec in specs:
            argument, shape = spec.split(": ")
            own.append(argument)
            arguments.append(f"{name}_{argument}")
            makers.append(_maker(shape))
        lines += [f"def {name}({', '.join(own)}):", textwrap.indent(textwrap.dedent(body).strip(), "    "), "", ""]
        calls.append(f"{name}({', '.join(f'{name}_{item}' for item in own)})")
    lines += [
        "class Model(nn.Module):",
        f"    def forward(self, {', '.join(arguments)}):",
        f"        return {', '.join(calls)},",
        "",
        "",
        "def get_inputs():",
        f"    return [{', '.join(makers)}]",
        "",
        "",
        "def get_init_inputs():",
        "    return []",
    ]
    return "\n".join(lines) + "\n"


def _maker(shape: str) -> str:
    kind, _, rest = shape.partition(" ")
    if kind == "bool":
        return f"torch.rand({rest}) > 0.7"
    if kind == "int":
        return f"torch.randint(-5, 5, ({rest},))"
    if kind in ("half", "bfloat16"):
        return f"torch.randn({rest}).{kind}()"
    return f"torch.randn({shape})"


def reference_module(source: str) -> types.ModuleType:
    """Execute a problem, or a candidate without kernels."""
    module = types.ModuleType("reference")
    exec(compile(source, "reference.py", "exec"), module.__dict__)
    return module
