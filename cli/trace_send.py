"""``stitchcuda trace export|push|ui``: traces for other programs, for LangSmith, and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from stitchcuda.cli.options import AsJson
from stitchcuda.cli.output import command, note, print_json
from stitchcuda.cli.trace import Everything, RunDir, app
from stitchcuda.core.errors import SettingsError

__all__ = ["app", "export_command", "push_command", "ui_command"]


@app.command(name="export")
@command
def export_command(
    root: Annotated[Path, typer.Argument(help="A run folder, or a folder of them.", metavar="DIR")],
    out: Annotated[Path, typer.Option(help="The file to write.", metavar="FILE")],
    form: Annotated[
        Literal["jsonl", "parquet", "otlp"] | None,
        typer.Option("--format", help="By the file's ending if not given; otlp is OpenTelemetry's JSON."),
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Only chain, llm, tool or retriever runs.", metavar="KIND")] = None,
    everything: Everything = False,
    as_json: AsJson = False,
) -> None:
    """Write runs as JSON lines or Parquet, a row per run with prompt, answer, inputs, outputs and times."""
    from stitchcuda.traces.export import export_runs
    from stitchcuda.traces.folders import find_run_folders
    from stitchcuda.traces.index import TRACE_NAME

    folders = [folder for folder in find_run_folders(root) if (folder / TRACE_NAME).is_file()]
    if not folders:
        raise SettingsError(f"{root} holds no trace; give a run folder or a folder of them")
    chosen = form or ("parquet" if out.suffix == ".parquet" else "jsonl")
    count = export_runs(folders, out, chosen, everything=everything, kind=kind)
    if as_json:
        print_json({"file": str(out), "format": chosen, "folders": len(folders), "runs": count})
    else:
        print(f"{count} runs of {len(folders)} folders in {out}")


@app.command(name="push")
@command
def push_command(
    root: Annotated[Path, typer.Argument(help="A run folder, or a folder of them.", metavar="DIR")],
    project: Annotated[
        str | None, typer.Option(help="LangSmith's project; stitchcuda if not given.", metavar="NAME")
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option(help="LangSmith's address; LANGSMITH_ENDPOINT if not given.", metavar="URL")
    ] = None,
    otlp: Annotated[
        str | None, typer.Option(help="Send to this OpenTelemetry collector instead.", metavar="URL")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Also what was sent before.")] = False,
    as_json: AsJson = False,
) -> None:
    """Send traces to LangSmith (key in LANGSMITH_API_KEY); a later push sends only what is new."""
    from stitchcuda.core.environment import Environment
    from stitchcuda.traces.folders import find_run_folders
    from stitchcuda.traces.index import TRACE_NAME
    from stitchcuda.traces.push import push_otlp, push_trace

    folders = [folder for folder in find_run_folders(root) if (folder / TRACE_NAME).is_file()]
    if not folders:
        raise SettingsError(f"{root} holds no trace; give a run folder or a folder of them")
    key = Environment().langsmith_api_key
    sent = []
    for folder in folders:
        if otlp is not None:
            sent.append({"run_dir": str(folder), "endpoint": otlp, "spans": push_otlp(folder, otlp)})
            continue
        pushed = push_trace(
            folder,
            api_key=key.get_secret_value() if key else None,
            endpoint=endpoint,
            project=project,
            again=again,
        )
        sent.append({"run_dir": str(folder), **pushed.model_dump()})
        note(f"{folder}: {pushed.events} events to {pushed.endpoint}")
    if as_json:
        print_json({"pushed": sent})
    else:
        print(f"{len(sent)} traces sent")


@app.command(name="ui")
@command
def ui_command(
    run_dir: RunDir,
    out: Annotated[
        Path | None, typer.Option(help="Write the page to this file instead of serving it.", metavar="FILE")
    ] = None,
    port: Annotated[int, typer.Option(help="Port on the loopback address; 0 takes a free one.", min=0, max=65535)] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open it in the browser.")] = True,
    as_json: AsJson = False,
) -> None:
    """Look at a run in the browser: a page served on loopback, or one self-contained HTML file (--out)."""
    from stitchcuda.traces.page import write_page

    if out is not None:
        page = write_page(run_dir, out)
        if as_json:
            print_json({"page": str(out), **page.model_dump()})
        else:
            print(f"{page.runs} runs in {out} ({page.bytes / 1e6:.1f} MB)")
            if page.cut:
                note(f"{page.cut} large values are cut in the page; serve it (without --out) to see all")
        return
    from stitchcuda.traces.serve import PageServer

    server = PageServer(run_dir, port)
    if as_json:
        print_json({"url": server.url})
    else:
        print(f"{server.url}  (^C ends)", flush=True)
    if browser:
        import webbrowser

        webbrowser.open(server.url)
    server.serve_forever()
