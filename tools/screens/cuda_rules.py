"""Static rules over the C++ and CUDA text inside a candidate: comments and string literals taken out first.

Findings are leads. What blocks has no place in a kernel file at all (loading libraries, starting programs, sockets,
looking into other processes) or is what the policy forbids (library calls under ``own-kernels``).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stitchcuda.core.records import Finding, Policy

__all__ = ["cuda_findings", "native_texts", "without_comments"]

_HOSTILE = {
    r"\bdlm?open\s*\(|\bdlv?sym\s*\(|\bcuModuleLoad\w*\s*\(|\bnvrtc\w+\s*\(": (
        "foreign_library",
        "loads code at run time",
    ),
    r"\bsystem\s*\(|\bpopen\s*\(|\bexecv\w*\s*\(|\bexecl\w*\s*\(|\bposix_spawn\w*\s*\(|\bv?fork\s*\(": (
        "harness_tamper",
        "starts a process",
    ),
    r"\bsocket\s*\(|\bconnect\s*\(": ("network", "opens a socket"),
    r"\bptrace\s*\(|\bprocess_vm_\w+\s*\(|\bmprotect\s*\(": ("harness_tamper", "changes a process's memory"),
    r"\bRecordFunctionGuard\b|\benableRecordFunction\b|\bclear\w*Callbacks\b|\bremoveCallback\b": (
        "harness_tamper",
        "switches the log of operators off",
    ),
    r"\bstitch(_\w+|\s*::)": ("harness_tamper", "uses names of the evaluator's own headers"),
    r"#\s*include\s*<pybind11/embed\b": ("harness_tamper", "embeds Python"),
    r"\bpy::(exec|eval|module_::import|module::import)\b|\bpybind11::(exec|eval)\b": ("harness_tamper", "runs Python"),
}
# Error macros of honest candidates end the process too; a worker that ends has failed anyway.
_ENDING = r"\b_?exit\s*\(|\b_Exit\s*\(|\bquick_exit\s*\(|\babort\s*\(|\bkill\s*\("
_LATE = r"\bstd::(j?thread|async)\b|\bpthread_create\s*\(|\bcudaLaunchHostFunc\s*\(|\bcudaStreamAddCallback\s*\("
_LIBRARY = r"\bcublas\w+\s*\(|\bcudnn\w+\s*\(|\bcusparse\w+\s*\(|\bcufft\w+\s*\(|\bcutensor\w+\s*\("
_TORCH_COMPUTE = (
    r"\b(?:at|torch)::(?:native::)?(?:_?(?:addmm|matmul|mm|bmm|conv\w*|linear|softmax|log_softmax|relu|gelu|sigmoid|tanh|"
    r"layer_norm|batch_norm|native_\w+|einsum|mean|sum|exp|add|mul|div|sub|cumsum|logsumexp))\s*\("
)
_L2 = r"\bcudaAccessPolicyWindow\b|\baccessPolicyWindow\b|\bcudaLimitPersistingL2CacheSize\b"


def native_texts(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """String constants that are C++ or CUDA, with the line on which they begin."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
            # A docstring may talk about kernels; only code has both a bracket and one of these.
            if ("#include" in text or "__global__" in text or 'extern "C"' in text) and "{" in text:
                yield text, node.lineno


def cuda_findings(tree: ast.Module, policy: Policy) -> Iterator[Finding]:
    """Findings about every native text of a candidate."""
    for text, line in native_texts(tree):
        code = without_comments(text)
        for pattern, (rule, message) in _HOSTILE.items():
            yield from _found(code, line, pattern, rule, "block", message)
        yield from _found(code, line, _ENDING, "early_exit", "info", "ends the process")
        yield from _found(code, line, _LATE, "late_write", "warn", "starts work on another host thread")
        yield from _found(code, line, _L2, "persisting_l2", "warn", "reserves L2 for itself beyond the call")
        severity = "block" if policy == "own-kernels" else "info"
        yield from _found(code, line, _LIBRARY, "not_own_kernel", severity, "calls a library")
        severity = "info" if policy == "any" else "warn"
        yield from _found(code, line, _TORCH_COMPUTE, "torch_compute", severity, "computes with PyTorch in C++")


def _found(code: str, first_line: int, pattern: str, rule: str, severity: str, message: str) -> Iterator[Finding]:
    for match in re.finditer(pattern, code):
        line = first_line + code.count("\n", 0, match.start())
        said = match.group().strip(" (\n")
        yield Finding.model_validate(
            {"rule": rule, "severity": severity, "message": f"{message}: {said}", "line": line}
        )


_TOKENS = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def without_comments(text: str) -> str:
    """The text with comments and literals blanked; line breaks stay, and spliced lines are joined first."""

    def blank(match: re.Match[str]) -> str:
        kept = match.group()
        if kept.startswith(("/", "'")):
            return "\n" * kept.count("\n") or " "
        return '""'

    return _TOKENS.sub(blank, text.replace("\\\n", " \n"))
