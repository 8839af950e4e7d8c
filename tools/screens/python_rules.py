"""Static rules over a candidate's Python source (the syntax tree only, so comments and strings cannot trip them).

Findings are leads. Only plainly hostile things block: ending the process, loading libraries past the build, walking
frames or the object graph, replacing the clock. Torch compute in ``forward`` is a warning; whether own kernels run is
decided by counting launches.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stitchcuda.core.records import Finding, Policy, ScreenReport
from stitchcuda.tools.screens.cuda_rules import cuda_findings
from stitchcuda.tools.screens.indirect_rules import indirect_findings

__all__ = ["screen_source"]

_HOSTILE_CALLS = {
    "os._exit": "harness_tamper",
    "os.kill": "harness_tamper",
    "os.killpg": "harness_tamper",
    "os.abort": "harness_tamper",
    "os.fork": "harness_tamper",
    "gc.get_objects": "harness_tamper",
    "gc.get_referrers": "harness_tamper",
    "gc.get_referents": "harness_tamper",
    "sys._getframe": "harness_tamper",
    "sys._current_frames": "harness_tamper",
    "inspect.stack": "harness_tamper",
    "inspect.currentframe": "harness_tamper",
    "sys.settrace": "harness_tamper",
    "sys.setprofile": "harness_tamper",
    "ctypes.CDLL": "foreign_library",
    "ctypes.PyDLL": "foreign_library",
    "ctypes.cdll.LoadLibrary": "foreign_library",
    "torch.ops.load_library": "foreign_library",
    "torch.classes.load_library": "foreign_library",
}
_HOSTILE_IMPORTS = {"socket": "network", "ctypes": "foreign_library", "multiprocessing": "harness_tamper"}
_HOSTILE_NAMES = {"sys.modules": "harness_tamper"}
_PROTECTED = (
    "torch.cuda.Event",
    "torch.cuda.synchronize",
    "torch.cuda.current_stream",
    "torch.cuda.Stream",
    "time.perf_counter",
    "time.monotonic",
    "time.time",
    "torch.allclose",
    "torch.equal",
    "torch.manual_seed",
    "torch.utils.cpp_extension.load_inline",
    "torch.utils.cpp_extension.load",
)
_COMPUTE_ROOTS = ("torch.nn.functional.", "torch.ops.", "torch.linalg.", "torch.fft.", "torch.special.")
_COMPUTE = {
    *("matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "dot", "conv1d", "conv2d", "conv3d", "softmax", "relu"),
    *("sigmoid", "tanh", "exp", "log", "sum", "mean", "var", "std", "max", "min", "amax", "amin", "cumsum", "cumprod"),
    *("gelu", "layer_norm", "batch_norm", "logsumexp", "norm", "argmax", "argmin", "prod", "add", "mul", "sub", "div"),
}
_OPERATORS = (ast.MatMult,)
_BORROWED = re.compile(r"^\w[\w.]*?\.(sys|os|gc|inspect|ctypes|builtins|socket|subprocess)(?=\.|$)")


def screen_source(source: str, policy: Policy = "libraries") -> ScreenReport:
    """Findings about ``source``, ordered by line. A syntax error is no finding: the build stage tells it."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ScreenReport()
    aliases = _aliases(tree)
    findings = [
        *_hostile(tree, aliases),
        *_compute_in_forward(tree, aliases),
        *indirect_findings(tree, lambda node: _dotted(node, aliases), policy),
        *cuda_findings(tree, policy),
    ]
    unique = {(f.rule, f.line, f.message): f for f in findings}
    return ScreenReport(findings=tuple(sorted(unique.values(), key=lambda f: (f.line or 0, f.rule))))


def _aliases(tree: ast.Module) -> dict[str, str]:
    """Local name to dotted origin, for imports and for plain ``x = a.b.c`` at module level."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Attribute, ast.Name)):
            origin = _dotted(node.value, names)
            for target in node.targets:
                if isinstance(target, ast.Name) and origin and origin.partition(".")[0] in names.values():
                    names.setdefault(target.id, origin)
    return names


def _dotted(node: ast.AST, aliases: dict[str, str]) -> str:
    """``F.relu`` as ``torch.nn.functional.relu``; empty for anything that is no chain of imported names."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in aliases:
        return ""
    dotted = ".".join([aliases[node.id], *reversed(parts)])
    # torch.sys is sys: a module that another one has imported keeps its meaning.
    found = _BORROWED.search(dotted)
    return dotted[found.start(1) :] if found else dotted


def _hostile(tree: ast.Module, aliases: dict[str, str]) -> Iterator[Finding]:
    for node in ast.walk(tree):
        line = getattr(node, "lineno", None)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            modules = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            for module in modules:
                root = module.partition(".")[0]
                if root in _HOSTILE_IMPORTS:
                    yield _block(_HOSTILE_IMPORTS[root], f"imports {root}", line)
        elif isinstance(node, (ast.Attribute, ast.Name)):
            name = _dotted(node, aliases)
            if isinstance(node.ctx, (ast.Store, ast.Del)) and isinstance(node, ast.Name):
                continue  # a local name of its own, not the module's attribute
            if isinstance(node.ctx, (ast.Store, ast.Del)):
                if name in _PROTECTED or any(name.startswith(f"{p}.") for p in _PROTECTED):
                    yield _block("harness_tamper", f"replaces {name}", line)
            elif name in _HOSTILE_CALLS:
                yield _block(_HOSTILE_CALLS[name], f"uses {name}", line)
            elif name in _HOSTILE_NAMES:
                yield _block(_HOSTILE_NAMES[name], f"uses {name}", line)
        if isinstance(node, ast.Call):
            yield from _hostile_call(node, aliases, line)


def _hostile_call(node: ast.Call, aliases: dict[str, str], line: int | None) -> Iterator[Finding]:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    first = node.args[0] if node.args else None
    text = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
    dotted = _dotted(node.func, aliases)
    if name == "open" or dotted in ("pathlib.Path", "os.open", "os.listdir", "os.scandir"):
        if text.startswith("/proc") or text.startswith("/sys/"):
            yield _block("harness_tamper", f"reads {text}", line)
    elif name == "__import__" and text.partition(".")[0] in _HOSTILE_IMPORTS:
        yield _block(_HOSTILE_IMPORTS[text.partition(".")[0]], f"imports {text}", line)
    elif name == "setattr" and first is not None and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
        target = f"{_dotted(first, aliases)}.{node.args[1].value!s}"
        if target in _PROTECTED:
            yield _block("harness_tamper", f"replaces {target}", line)


def _compute_in_forward(tree: ast.Module, aliases: dict[str, str]) -> Iterator[Finding]:
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef) or function.name != "forward":
            continue
        for node in ast.walk(function):
            line = getattr(node, "lineno", None)
            if isinstance(node, ast.BinOp) and isinstance(node.op, _OPERATORS):
                yield Finding(rule="torch_compute", severity="warn", message="the @ operator in forward", line=line)
            elif isinstance(node, ast.Call):
                name = _dotted(node.func, aliases)
                leaf = name.rpartition(".")[2]
                library = name.startswith(_COMPUTE_ROOTS) or (name.startswith("torch.") and leaf in _COMPUTE)
                if library:
                    yield Finding(rule="torch_compute", severity="warn", message=f"{name} in forward", line=line)


def _block(rule: str, message: str, line: int | None) -> Finding:
    return Finding(rule=rule, severity="block", message=message, line=line)
