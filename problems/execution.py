"""Run a problem's source, stage by stage, with each failure told in one line.

Executes somebody's program in this process: call it only in an isolated worker. Imports torch lazily. Stages can run
on *fake* tensors (``fake_tensors``), which have shapes and dtypes but no memory, so that full sizes cost nothing.
"""

from __future__ import annotations

import inspect
import linecache
import logging
import sys
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stitchcuda.core.errors import ProblemError, one_line
from stitchcuda.problems.parsing import check_source
from stitchcuda.problems.recurrent import recurrent_in_one_step

if TYPE_CHECKING:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

__all__ = [
    "Prepared",
    "Program",
    "execute",
    "fake_mode",
    "fake_tensors",
    "needs_values",
    "prepare",
    "quiet",
    "tensors_in",
]

FILE_NAME = "<problem>"
_MODULE_NAME = "stitchcuda_problem_under_test"


@contextmanager
def quiet() -> Iterator[None]:
    """Without the warnings of the problem's own code, which say nothing about us."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def fake_mode() -> FakeTensorMode:
    """A mode for ``fake_tensors``; the fake tensors of one run must all come from one mode."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode(allow_non_fake_inputs=True)


@contextmanager
def fake_tensors(mode: FakeTensorMode) -> Iterator[None]:
    """Everything created inside has a shape and a dtype, and no memory."""
    # An op that refuses its arguments is logged with a full traceback; it reaches the caller as an exception anyway.
    log = logging.getLogger("torch._subclasses.fake_tensor")
    disabled, log.disabled = log.disabled, True
    try:
        with quiet(), mode, recurrent_in_one_step():
            yield
    finally:
        log.disabled = disabled


@contextmanager
def _told(what: str, advice: str) -> Iterator[None]:
    """Any failure inside as a ``ProblemError`` that names the exception and the problem's line."""
    try:
        yield
    except ProblemError:
        raise
    except (Exception, SystemExit) as error:
        line = _line_of(error)
        place = f" on line {line}" if line else ""
        detail = one_line(error, 200)
        name = type(error).__name__
        told = name if detail == name else f"{name}: {detail}"
        raise ProblemError(f"{what} fails{place}: {told}; {advice}") from error


def _line_of(error: BaseException) -> int | None:
    """The last line of the problem's text in the traceback of ``error``."""
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == FILE_NAME:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


@dataclass(frozen=True)
class Program:
    """The executed source of one problem."""

    module: types.ModuleType

    def init_inputs(self) -> list[Any]:
        """Arguments of ``Model``; none where the file has no ``get_init_inputs``."""
        function = getattr(self.module, "get_init_inputs", None)
        if function is None:
            return []
        with _told("get_init_inputs()", "it must return the list of Model's arguments"):
            arguments = function()
        if not isinstance(arguments, list | tuple):
            raise ProblemError(
                f"get_init_inputs() returns a {type(arguments).__name__}; it must return the list of Model's arguments"
            )
        return list(arguments)

    def inputs(self) -> list[Any]:
        """Arguments of ``Model.forward``."""
        with _told("get_inputs()", "it must return the list of Model.forward's inputs"):
            arguments = self.module.get_inputs()
        if not isinstance(arguments, list | tuple):
            raise ProblemError(
                f"get_inputs() returns a {type(arguments).__name__}; it must return the list of Model.forward's inputs"
            )
        return list(arguments)

    def model(self, arguments: list[Any]) -> torch.nn.Module:
        """An instance of ``Model``, in the mode in which its constructor leaves it."""
        with _told("Model(*get_init_inputs())", "the arguments must fit Model.__init__"):
            model: torch.nn.Module = self.module.Model(*arguments)
            return model

    def forward(self, model: torch.nn.Module, inputs: list[Any]) -> Any:
        """What the model returns for ``inputs``, without gradients."""
        import torch

        with torch.no_grad(), _told("Model.forward(*get_inputs())", "the inputs must fit Model.forward"):
            return model(*inputs)


def execute(source: str) -> Program:
    """Execute ``source`` as a module and see that ``Model`` is a class of modules.

    Raises:
        ProblemError: it is no problem, or its top level fails.
    """
    check_source(source, "problem")
    import torch

    module = types.ModuleType(_MODULE_NAME)
    module.__file__ = FILE_NAME
    # Both are what `inspect.getsource` and `dataclasses` look for; torch.jit.script needs the first.
    linecache.cache[FILE_NAME] = (len(source), None, source.splitlines(keepends=True), FILE_NAME)
    sys.modules[_MODULE_NAME] = module
    with quiet(), _told("the problem's file", "it must be importable as it is, with its packages installed"):
        exec(compile(source, FILE_NAME, "exec"), module.__dict__)
    model = getattr(module, "Model", None)
    if not inspect.isclass(model) or not issubclass(model, torch.nn.Module):
        kind = (
            f"a class that is no torch.nn.Module ({model.__mro__[1].__name__})"
            if inspect.isclass(model)
            else repr(model)
        )
        raise ProblemError(f"Model is {one_line(Exception(kind), 120)}; derive it from torch.nn.Module")
    if not callable(getattr(module, "get_inputs", None)):
        raise ProblemError("get_inputs is no function; it must return the list of Model.forward's inputs")
    return Program(module)


@dataclass(frozen=True)
class Prepared:
    """A problem ready to run on fake tensors, which are those of ``mode``."""

    program: Program
    arguments: list[Any]
    model: torch.nn.Module
    inputs: list[Any]
    mode: FakeTensorMode

    def forward(self) -> Any:
        """What the model returns, as fake tensors."""
        with fake_tensors(self.mode):
            return self.program.forward(self.model, self.inputs)


def prepare(source: str) -> Prepared:
    """Inputs and model of ``source`` without memory.

    A constructor that looks at values (``tensor.item()``) is run for real: only the parameters then take memory.

    Raises:
        ProblemError: a stage fails.
    """
    mode = fake_mode()
    with fake_tensors(mode):
        program = execute(source)
        inputs = program.inputs()
        try:
            arguments = program.init_inputs()
            return Prepared(program, arguments, program.model(arguments), inputs, mode)
        except ProblemError as error:
            if not needs_values(error):
                raise
    with quiet():
        program = execute(source)
        arguments = program.init_inputs()
        return Prepared(program, arguments, program.model(arguments), inputs, mode)


def needs_values(error: ProblemError) -> bool:
    """Whether a stage failed only because a fake tensor has no values."""
    from torch._subclasses.fake_tensor import (
        DataDependentOutputException,
        DynamicOutputShapeException,
        UnsupportedOperatorException,
    )

    kinds = (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException)
    return isinstance(error.__cause__, kinds)


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor in nested lists, tuples and dictionaries, in order."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
