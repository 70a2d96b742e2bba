"""The choice of the ranked job to export. Pure."""

import shlex
from collections.abc import Sequence

from sweeps.errors import EdgeSweepError, did_you_mean
from sweeps.ranking.values import Candidate, DeviceRanking, Ranking
from sweeps.spec.label import names_of_job


def choose(ranking: Ranking, model: str | None, job: str | None) -> tuple[DeviceRanking, Candidate]:
    """Return the job named `job`, with or without its model's name; or without `job` the winner, of `model` if there
    are several.

    Raises `EdgeSweepError` if several jobs fit, or none.
    """
    sweep = shlex.quote(ranking.sweep)
    devices = [device for device in ranking.devices if model is None or device.model == model]
    if job is not None:
        matches = [
            (device, candidate)
            for device in devices
            for candidate in (*device.ranking, *device.checked)
            if job in names_of_job(candidate.name, candidate.name_here, device.model)
        ]
        if not matches:
            known = [candidate.name for device in devices for candidate in (*device.ranking, *device.checked)]
            short = [name.partition(" · ")[2] for name in known]
            raise EdgeSweepError(
                f"no ranked job is called {job!r}{did_you_mean(job, [*short, *known])}",
                f"find the names with: edgesweep rank {sweep} --all",
            )
        if len(matches) > 1:
            raise EdgeSweepError(
                f"{len(matches)} ranked jobs are called {job!r}", "choose with --model and --device too"
            )
        return matches[0]
    winners = [(device, device.winner) for device in devices if device.winner is not None]
    if len(winners) > 1:
        choices = "; ".join(f"{device.model} on {device.device} ({device.device_id})" for device, _ in winners)
        raise EdgeSweepError(
            f"there are {len(winners)} winners: {choices}", "choose with --device and --model, or --variant"
        )
    if not winners:
        reasons = "; ".join(device.no_winner_reason for device in devices) or "nothing was ranked"
        raise EdgeSweepError(f"there is no winner to export: {reasons}", _without_winner(devices, sweep))
    return winners[0]


def _without_winner(devices: Sequence[DeviceRanking], sweep: str) -> str:
    """Return the next step for a ranking without a winner: the provisional choice, and the command that settles it.
    `sweep`: quoted for a shell."""
    open_ = [(device, device.provisional) for device in devices if device.provisional is not None]
    for device, choice in open_:
        if choice.name:
            name = shlex.quote(choice.name.removeprefix(f"{device.model} · "))
            provisional = f"take the provisional choice: edgesweep export {sweep} --variant {name}"
            return f"{provisional}; or settle it: {choice.settle.timed_text}"
    return open_[0][1].settle.timed_text if open_ else f"choose a job yourself: edgesweep export {sweep} --variant NAME"
