"""The ``stitchcuda`` command: one line per command here, the work in its module.

Exit codes: 0 solved or passed · 1 ran, and nothing better was found or it did not pass · 2 usage, settings
or problem · 3 the machine lacks something, or a model failed · 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from stitchcuda.cli import bench, doctor, evaluate, rag, report, solve, trace_send
from stitchcuda.cli.output import INTERRUPTED, print_json, printed_objects

__all__ = ["app", "main"]

app = typer.Typer(
    name="stitchcuda",
    help="PyTorch programs in, verified and faster CUDA programs out.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    # A traceback with the values of local variables could print a key.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(name="solve")(solve.solve_command)
app.command(name="eval")(evaluate.eval_command)
app.command(name="doctor")(doctor.doctor_command)
app.command(name="bench")(bench.bench_command)
app.command(name="report")(report.report_command)
app.add_typer(rag.app, name="rag")
app.add_typer(trace_send.app, name="trace", no_args_is_help=True)


def _print_version(wanted: bool) -> None:
    if wanted:
        import importlib.metadata

        print(f"stitchcuda {importlib.metadata.version('stitchcuda')}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """PyTorch programs in, verified and faster CUDA programs out."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A file name or a dash must not end a run on a terminal that cannot show it.
            stream.reconfigure(errors="backslashreplace")
    given = list(sys.argv[1:] if arguments is None else arguments)
    before = printed_objects()
    try:
        app(args=given, prog_name="stitchcuda")
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(bool(end.code))
        if code == 2 and "--json" in given and printed_objects() == before:
            print_json({"error": "UsageError", "message": "the command line is not valid; see stderr", "exit_code": 2})
        return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
