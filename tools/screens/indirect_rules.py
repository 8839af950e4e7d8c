"""Static rules for what goes round the obvious spelling: names put together, code in strings, other compilers,
look-ups of the reference.

Uses the same origin of names as ``python_rules``; constant strings are folded first, so that ``"_get" + "frame"`` is
what it says.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator

from stitchcuda.core.records import Finding, Policy

__all__ = ["folded_text", "indirect_findings"]

Origin = Callable[[ast.AST], str]

_SENSITIVE_ROOTS = {"sys", "os", "gc", "inspect", "builtins", "ctypes", "importlib", "socket", "posix", "__builtins__"}
_OTHER_COMPILERS = {"triton", "cupy", "numba", "jax", "tvm", "pycuda", "tilelang", "cutlass", "torch._inductor"}
_COMPILING = {"torch.compile", "torch.jit.script", "torch.jit.trace", "torch._dynamo.optimize", "torch.jit.freeze"}
_STARTING = ("subprocess.", "os.system", "os.popen", "os.exec", "os.spawn", "os.posix_spawn", "pty.")
_REFERENCE_MODULES = {"__main__", "reference", "stitchcuda"}
_PATCHABLE_ROOTS = {"torch", "time", "os", "sys", "builtins", "json", "numpy"}
_SETTINGS = ("torch.backends.", "torch._inductor.config", "torch._dynamo.config", "sys.stdout", "sys.stderr")
_READABLE = ("/tmp/", "/usr/local/cuda", "/dev/null")


def indirect_findings(tree: ast.Module, origin: Origin, policy: Policy) -> Iterator[Finding]:
    """Findings about ``tree``; ``origin`` gives the dotted origin of a chain of imported names."""
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    imported = {
        alias.asname or alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    for node in ast.walk(tree):
        line = getattr(node, "lineno", None)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from _imports(node, line)
        elif isinstance(node, ast.ClassDef):
            for base in node.bases:
                if isinstance(base, ast.Name) and base.id == "Model" and "Model" not in defined | imported:
                    yield _block("harness_tamper", f"class {node.name} inherits from the reference's Model", line)
        elif isinstance(node, ast.Subscript):
            yield from _subscript(node, line)
        elif isinstance(node, ast.Call):
            yield from _call(node, origin, policy, line)
        elif isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Load):
            yield from _foreign_use(origin(node), policy, line)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
            name = origin(node)
            if name.partition(".")[0] in _PATCHABLE_ROOTS and not name.startswith(_SETTINGS):
                yield _block("harness_tamper", f"replaces {name}", line)


def _imports(node: ast.Import | ast.ImportFrom, line: int | None) -> Iterator[Finding]:
    modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    for module in modules:
        root = module.partition(".")[0]
        if root in _REFERENCE_MODULES:
            yield _block("harness_tamper", f"imports {module}, in search of the reference or the evaluator", line)
        if root in _OTHER_COMPILERS or module in _OTHER_COMPILERS:
            # An import that is not used is no offence; a use is told by ``_foreign_use``.
            message = f"imports {root}, another compiler of kernels"
            yield Finding(rule="not_own_kernel", severity="info", message=message, line=line)


def _foreign_use(name: str, policy: Policy, line: int | None) -> Iterator[Finding]:
    root, dot, _ = name.partition(".")
    if (root in _OTHER_COMPILERS and dot) or name.startswith("torch._inductor."):
        yield _foreign(f"uses {name}: kernels of another compiler", policy, line)


def _subscript(node: ast.Subscript, line: int | None) -> Iterator[Finding]:
    namespace = node.value
    called = isinstance(namespace, ast.Call) and isinstance(namespace.func, ast.Name) and namespace.func.id
    dictionary = isinstance(namespace, ast.Attribute) and namespace.attr in ("__dict__", "__globals__")
    if called in ("globals", "vars", "locals") or dictionary:
        text = folded_text(node.slice)
        if text == "Model" or (text is None and called == "globals"):
            yield _block("harness_tamper", "looks up the reference in a namespace", line)


def _call(node: ast.Call, origin: Origin, policy: Policy, line: int | None) -> Iterator[Finding]:
    plain = node.func.id if isinstance(node.func, ast.Name) else ""
    dotted = origin(node.func)
    texts = [folded_text(argument) for argument in node.args]
    first = texts[0] if texts else None
    if plain in ("exec", "eval", "compile") and hasattr(builtins, plain):
        yield _block("obfuscated", f"runs code from a string ({plain})", line)
    elif plain == "__import__" or dotted in ("importlib.import_module", "importlib.__import__"):
        root = (first or "").partition(".")[0]
        if first is None:
            yield _block("obfuscated", "imports a module whose name is put together", line)
        elif root in {"socket", "ctypes", "multiprocessing", "gc", "inspect"} | _REFERENCE_MODULES:
            yield _block("harness_tamper", f"imports {first} by a string", line)
        elif root in _OTHER_COMPILERS:
            yield _foreign(f"imports {root}: kernels of another compiler", policy, line)
    elif plain in ("getattr", "setattr", "delattr") and node.args:
        yield from _attribute_by_name(plain, origin(node.args[0]), node.args[0], texts, line)
    elif plain == "open" or dotted in ("os.open", "pathlib.Path", "io.open", "torch.load", "numpy.load"):
        if first is not None and first.startswith("/") and not first.startswith(_READABLE):
            yield _block("harness_tamper", f"opens {first[:80]}, outside of its folder", line)
    elif dotted in _COMPILING:
        yield _foreign(f"uses {dotted}: kernels of another compiler", policy, line)
    elif dotted.startswith(_STARTING):
        yield _block("harness_tamper", f"starts a process ({dotted})", line)
    elif isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "items", "values", "pop"):
        inner = node.func.value
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id == "globals":
            yield _block("harness_tamper", "searches its globals", line)


def _attribute_by_name(
    function: str, owner: str, owner_node: ast.AST, texts: list[str | None], line: int | None
) -> Iterator[Finding]:
    name = texts[1] if len(texts) > 1 else None
    bare = owner_node.id if isinstance(owner_node, ast.Name) else ""
    root = owner.partition(".")[0] or (bare if bare == "__builtins__" else "")
    if function in ("setattr", "delattr"):
        if root in _PATCHABLE_ROOTS and not f"{owner}.{name}".startswith(_SETTINGS):
            yield _block("harness_tamper", f"replaces {owner}.{name or '(a name put together)'}", line)
    elif root in _SENSITIVE_ROOTS:
        if name is None:
            yield _block("obfuscated", f"takes something from {root} by a name that is put together", line)
        elif name in ("_getframe", "_current_frames", "get_objects", "get_referrers", "_exit", "kill", "modules"):
            yield _block("harness_tamper", f"uses {root}.{name}", line)


def folded_text(node: ast.AST) -> str | None:
    """The string that a constant expression gives; ``None`` when it depends on anything."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = folded_text(node.left), folded_text(node.right)
        return None if left is None or right is None else left + right
    if isinstance(node, ast.JoinedStr):
        parts = [folded_text(value.value if isinstance(value, ast.FormattedValue) else value) for value in node.values]
        return None if None in parts else "".join(part for part in parts if part is not None)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "join" and node.args:
        glue, items = folded_text(node.func.value), node.args[0]
        if glue is not None and isinstance(items, (ast.List, ast.Tuple)):
            found = [folded_text(item) for item in items.elts]
            return None if None in found else glue.join(part for part in found if part is not None)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        text = folded_text(node.value)
        step = node.slice.step
        backwards = isinstance(step, ast.UnaryOp) and isinstance(step.op, ast.USub) and node.slice.lower is None
        return text[::-1] if text is not None and backwards and node.slice.upper is None else None
    return None


def _foreign(message: str, policy: Policy, line: int | None) -> Finding:
    severity = "info" if policy == "any" else "block"
    return Finding.model_validate({"rule": "not_own_kernel", "severity": severity, "message": message, "line": line})


def _block(rule: str, message: str, line: int | None) -> Finding:
    return Finding(rule=rule, severity="block", message=message, line=line)
