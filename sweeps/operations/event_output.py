"""The output of a driver's events: as progress bars and lines, in the live file that other processes read, and in
words."""

from collections.abc import Mapping
from typing import assert_never

from sweeps.command_hints import ANYWHERE
from sweeps.launching.live_report import LiveFile
from sweeps.launching.sweep_commands import command_hints
from sweeps.records import Failed
from sweeps.report.progress import RunProgress
from sweeps.text import shortened
from sweeps.workspace import Workspace
from workers.devices.interface import Rung
from workers.driver import driver_events
from workers.driver.driver_events import Event

_TOGETHER = ("Building", "Measuring on ")
"""Beginnings of the titles of bars that are shown at the same time: phones measure while other builds are made."""

_Noted = (
    driver_events.AttemptFailed
    | driver_events.Waiting
    | driver_events.Back
    | driver_events.Left
    | driver_events.DeviceChanged
    | driver_events.Away
    | driver_events.Recovering
    | driver_events.Quarantined
    | driver_events.Readmitted
    | driver_events.MeasuredAlone
    | driver_events.TrackingDown
)

_RUNGS: Mapping[Rung, str] = {
    "ask": "asking its shell",
    "reconnect": "connecting to it again",
    "restart_adb": "restarting the adb server of its host",
    "reboot": "restarting it",
}


def show(event: Event, progress: RunProgress, live: LiveFile | None = None, workspace: Workspace | None = None) -> None:
    """Show an event. `live`: the file by which other processes follow the run. `workspace`: the folder that commands in
    advice name."""
    match event:
        case driver_events.Preparing(model):
            progress.preparing(model, None)
        case driver_events.Building(done, total, running):
            progress.step("Building", done, total, ", ".join(running), unit="builds", beside=_TOGETHER)
            if done == total:
                progress.end("Building")
        case driver_events.Measuring(device, done, total, running, _):
            progress.step(f"Measuring on {device}", done, total or None, running, beside=_TOGETHER)
        case driver_events.Published(done, total):
            progress.step("Publishing to MLflow", done, total, "", unit="jobs")
        case _:
            advice = ANYWHERE if workspace is None else command_hints(workspace, live.live.sweep if live else None)
            progress.note(advice.typed(in_words(event)))
    if live is not None:
        _keep(event, live)


def in_words(event: _Noted) -> str:
    match event:
        case driver_events.AttemptFailed(name, failed, final):
            outlook = "" if final else "; trying again"
            return f"{name}: {failed.stage} failed ({failed.kind}): {_short(failed)}{outlook}"
        case driver_events.Waiting(device, lacking, waited):
            return f"waiting for {device} ({waited:.0f} s): {'; '.join(lacking)}"
        case driver_events.Back(device, host, seconds):
            return f"back after {seconds:.0f} s without {host}: {device} answers again"
        case driver_events.Left(name, settled):
            return f"{name}: {settled.message}"
        case driver_events.DeviceChanged(device):
            return f"{device} changed its speed: the sentinel's latency moved by more than 5 %"
        case driver_events.Away(device, failed, pending):
            return f"{device} is away ({failed.kind}): {_short(failed)}; {pending} of its jobs wait for the next run"
        case driver_events.Recovering(device, rung, refused):
            return f"{device}: {_RUNGS[rung]}" + (f" was not possible: {refused}" if refused else "")
        case driver_events.Quarantined(device, quarantine):
            return f"{device} is quarantined: {quarantine.reason}; {quarantine.way_out}"
        case driver_events.Readmitted(device, _):
            return f"{device} is in quarantine no more: its canary job succeeded"
        case driver_events.MeasuredAlone(names, failed):
            builds = names[0] if len(names) == 1 else f"{len(names)} builds"
            return f"{builds}: measured in processes of their own only ({failed.kind}): {_short(failed)}"
        case driver_events.TrackingDown(message):
            return f"MLflow does not take results now; the journal keeps them: {message}"
        case never:
            assert_never(never)


def _short(failed: Failed) -> str:
    return shortened(failed.message, "edgesweep status -v")


def _keep(event: Event, live: LiveFile) -> None:
    match event:
        case driver_events.Preparing(model):
            live.step(f"preparing {model}")
        case driver_events.Building(done, total, running):
            live.builds(done, total, running)
        case driver_events.Measuring(device, done, total, running, job):
            live.measuring(device, done, total, running, job)
        case driver_events.Published(done, total):
            live.step(f"publishing to MLflow: {done} of {total} jobs")
        case driver_events.Waiting(device, lacking, waited, False):
            live.waiting(device, lacking, waited)
        case driver_events.Away(device, failed, pending):
            live.away(device, failed.message, pending)
            live.note(in_words(event))
        case _:
            live.note(in_words(event))
