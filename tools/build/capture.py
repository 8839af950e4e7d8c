"""Worker side: ``load_inline`` and ``load`` of a candidate become requests for a build.

Needs torch and the standard library. What is replaced is the pair of functions of
``torch.utils.cpp_extension``; nothing is compiled in the candidate's process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stitchcuda.tools.build.spec import ExtensionSpec

__all__ = ["capture_load_inline"]

Request = Callable[[ExtensionSpec], dict[str, Any]]


def capture_load_inline(request: Request) -> None:
    """Replace ``load_inline`` and ``load`` in this process.

    Args:
        request: builds a spec elsewhere; answers with an ``ExtensionBuild`` as a dict.
    """
    import torch.utils.cpp_extension as cpp_extension

    def load_inline(
        name: str,
        cpp_sources: str | Sequence[str] = (),
        cuda_sources: str | Sequence[str] | None = None,
        sycl_sources: str | Sequence[str] | None = None,
        functions: str | Sequence[str] | dict[str, str] | None = None,
        extra_cflags: Sequence[str] | None = None,
        extra_cuda_cflags: Sequence[str] | None = None,
        extra_sycl_cflags: Sequence[str] | None = None,  # noqa: ARG001  # torch's signature
        extra_ldflags: Sequence[str] | None = None,
        extra_include_paths: Sequence[str] | None = None,
        build_directory: str | None = None,  # noqa: ARG001
        verbose: bool = False,  # noqa: ARG001
        with_cuda: bool | None = None,  # noqa: ARG001
        is_python_module: bool = True,
        with_pytorch_error_handling: bool = True,  # noqa: ARG001
        keep_intermediates: bool = True,  # noqa: ARG001
        use_pch: bool = False,  # noqa: ARG001
        no_implicit_headers: bool = False,  # noqa: ARG001
        **unknown: object,
    ) -> Any:
        _refuse("load_inline", unknown, sycl_sources)
        names, docs = _functions(functions)
        return _load(
            ExtensionSpec(
                name=name,
                cpp_sources=_strings("cpp_sources", cpp_sources),
                cuda_sources=_strings("cuda_sources", cuda_sources),
                functions=names,
                docs=docs,
                extra_cflags=_strings("extra_cflags", extra_cflags),
                extra_cuda_cflags=_strings("extra_cuda_cflags", extra_cuda_cflags),
                extra_ldflags=_strings("extra_ldflags", extra_ldflags),
                extra_include_paths=_strings("extra_include_paths", extra_include_paths),
                python_module=is_python_module,
            ),
            request,
        )

    def load(
        name: str,
        sources: str | Sequence[str],
        extra_cflags: Sequence[str] | None = None,
        extra_cuda_cflags: Sequence[str] | None = None,
        extra_sycl_cflags: Sequence[str] | None = None,  # noqa: ARG001
        extra_ldflags: Sequence[str] | None = None,
        extra_include_paths: Sequence[str] | None = None,
        build_directory: str | None = None,  # noqa: ARG001
        verbose: bool = False,  # noqa: ARG001
        with_cuda: bool | None = None,  # noqa: ARG001
        with_sycl: bool | None = None,  # noqa: ARG001
        is_python_module: bool = True,
        is_standalone: bool = False,
        keep_intermediates: bool = True,  # noqa: ARG001
        **unknown: object,
    ) -> Any:
        _refuse("load", unknown, is_standalone or None)
        paths = [Path(path) for path in _strings("sources", sources)]
        device = [path for path in paths if path.suffix in (".cu", ".cuh")]
        host = [path for path in paths if path not in device]
        return _load(
            ExtensionSpec(
                name=name,
                cpp_sources=tuple(path.read_text(encoding="utf-8") for path in host),
                cuda_sources=tuple(path.read_text(encoding="utf-8") for path in device),
                extra_cflags=_strings("extra_cflags", extra_cflags),
                extra_cuda_cflags=_strings("extra_cuda_cflags", extra_cuda_cflags),
                extra_ldflags=_strings("extra_ldflags", extra_ldflags),
                extra_include_paths=_strings("extra_include_paths", extra_include_paths),
                inline=False,
                cpp_names=tuple(path.name for path in host),
                cuda_names=tuple(path.name for path in device),
                python_module=is_python_module,
            ),
            request,
        )

    setattr(cpp_extension, "load_inline", load_inline)  # noqa: B010  # an assignment would need equal types
    setattr(cpp_extension, "load", load)  # noqa: B010


def _load(spec: ExtensionSpec, request: Request) -> Any:
    from stitchcuda.tools.build.loader import load_extension

    build = request(spec)
    if not build["ok"]:
        errors = [item for item in build["diagnostics"] if item["severity"] == "error"]
        lines = "\n".join(_line(item) for item in errors[:5])
        raise RuntimeError(f"Error building extension '{spec.name}': {lines}")
    return load_extension(build, spec)


def _line(item: dict[str, Any]) -> str:
    where = f"{item['file']}:{item['line']}: " if item.get("file") else ""
    return f"{where}{item['message']}"


def _functions(given: str | Sequence[str] | dict[str, str] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if given is None:
        return (), ()
    if isinstance(given, dict):
        return tuple(str(name) for name in given), tuple(str(doc) for doc in given.values())
    return _strings("functions", given), ()


def _strings(what: str, given: str | Sequence[str] | None) -> tuple[str, ...]:
    if given is None:
        return ()
    items = [given] if isinstance(given, str) else list(given)
    for item in items:
        if not isinstance(item, (str, Path)):
            raise TypeError(f"{what} must be a string or a list of strings, not {type(item).__name__}")
    return tuple(str(item) for item in items)


def _refuse(function: str, unknown: dict[str, object], unsupported: object) -> None:
    if unknown:
        raise TypeError(f"{function}() got an unexpected keyword argument {next(iter(unknown))!r}")
    if unsupported:
        raise RuntimeError(f"{function}: SYCL and standalone programs are not supported")
