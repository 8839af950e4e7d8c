"""``stitchcuda doctor``: what this machine can do, and what each lack means."""

from __future__ import annotations

import typer

from stitchcuda.cli.options import AsJson
from stitchcuda.cli.output import MACHINE_FAILED, command, print_json, stdout_console

__all__ = ["doctor_command"]


@command
def doctor_command(as_json: AsJson = False) -> None:
    """Show what this machine can do, what each lack means, and what to do about it.

    Ends with 0 if `solve` can run on some device here, with 3 if not.
    """
    from stitchcuda.tools.machine import inspect_machine
    from stitchcuda.tools.machine_checks import check_machine, usable_devices

    machine = inspect_machine()
    checks = check_machine(machine)
    devices = usable_devices(machine)
    if as_json:
        print_json(
            {
                "ok": bool(devices),
                "devices": list(devices),
                "checks": [check.model_dump(mode="json") for check in checks],
                "machine": machine.model_dump(mode="json"),
            }
        )
    else:
        from rich.text import Text

        console = stdout_console()
        marks = {"ok": ("ok", "green"), "limited": ("--", "yellow"), "missing": ("!!", "red")}
        width = max(len(check.name) for check in checks)
        for check in checks:
            mark, colour = marks[check.state]
            console.print(Text.assemble((mark, colour), f" {check.name:<{width}}  ", check.value), soft_wrap=True)
            indent = " " * (width + 5)
            if check.meaning:
                console.print(Text(f"{indent}means: {check.meaning}"), soft_wrap=True)
            if check.action:
                console.print(Text(f"{indent}to do: {check.action}"), soft_wrap=True)
        console.print()
        text = "solve can run on: " + ", ".join(devices) if devices else "solve cannot run here: see the !! lines"
        console.print(Text(text, style="bold"), soft_wrap=True)
    if not devices:
        raise typer.Exit(MACHINE_FAILED)
