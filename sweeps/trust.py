"""What there is to know about a timing before it is believed: the closed list of trust labels. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustLabel:
    """Something to know about a timing. A disqualifying label is shown and never wins; an advisory one may win."""

    name: str
    disqualifying: bool
    advice: str


TRUST: dict[str, TrustLabel] = {
    label.name: label
    for label in (
        TrustLabel(
            name="throttled",
            disqualifying=True,
            advice="the device slowed itself down during a block, or no longer told whether it did: let it cool, "
            "shade it; edgesweep run SWEEP.yaml --retry-failed measures it again",
        ),
        TrustLabel(
            name="gate_timeout",
            disqualifying=True,
            advice="the device was not ready within the limit (too warm, too empty, another benchmark on it): see to "
            "that, or raise the limit; edgesweep run SWEEP.yaml --retry-failed measures it again",
        ),
        TrustLabel(
            name="backend_fell_back",
            disqualifying=True,
            advice="another backend ran than was asked for: the time is that of the other one",
        ),
        TrustLabel(
            name="engine_differs",
            disqualifying=True,
            advice="another quantized engine ran than was asked for: use a runtime on the device that has it",
        ),
        TrustLabel(
            name="device_changed",
            disqualifying=True,
            advice="the device itself changed speed while the sweep ran: find out why; edgesweep run SWEEP.yaml "
            "--retry-failed measures it again",
        ),
        TrustLabel(
            name="invalid_output",
            disqualifying=True,
            advice="an output is not a finite number: look at the precision, the engine and the calibration data",
        ),
        TrustLabel(
            name="ungated",
            disqualifying=False,
            advice="nothing told whether the device was cool (it has no temperature sensor, or no gate was applied): "
            "keep the machine idle and compare within one sweep only",
        ),
        TrustLabel(
            name="virtual_phone",
            disqualifying=False,
            advice="measured on a virtual phone: the time is this computer's, and none of a phone",
        ),
        TrustLabel(
            name="hot_start",
            disqualifying=False,
            advice="the block started, without a gate, warmer than one would allow: let the device rest, or set a gate",
        ),
        TrustLabel(
            name="unstable",
            disqualifying=False,
            advice="the last rounds differ by more than 5 %: add rounds, stop other programs",
        ),
        TrustLabel(
            name="few_samples",
            disqualifying=False,
            advice="fewer than 64 samples in all, rounds missing, or a block cut short by max_seconds: "
            "raise min_seconds, rounds or max_seconds",
        ),
        TrustLabel(
            name="one_block",
            disqualifying=False,
            advice="one process only, so no interval: fresh processes of one artifact differ by tens of percent; "
            "use 3 rounds or more",
        ),
        TrustLabel(
            name="outliers",
            disqualifying=False,
            advice="over 10 % of a block's samples are outliers, so its p90 shows them: stop other programs",
        ),
        TrustLabel(
            name="part_of_images",
            disqualifying=False,
            advice="the accuracy is that of the first images only, at most 100, as PyTorch's own benchmark tool "
            "answers each in a process of its own: put EdgeSweep's runner on the device, which answers all",
        ),
        TrustLabel(
            name="busy_host",
            disqualifying=False,
            advice="other programs took over 15 % of the CPU time just before a block, or the hypervisor over 5 % "
            "during one: stop them, or take a machine that is not shared, and measure again",
        ),
    )
}
"""The closed list, disqualifying labels first."""


def disqualified(labels: Iterable[str]) -> list[str]:
    """Those with which nothing wins, decides or is compared; one that this version does not know may be a grave one."""
    return [label for label in labels if label not in TRUST or TRUST[label].disqualifying]


def in_order(labels: Iterable[str]) -> tuple[str, ...]:
    """New trust labels once each, in the order of `TRUST`. Raises `ValueError` for one that is not in the list."""
    found = set(labels)
    if unknown := found - TRUST.keys():
        raise ValueError(f"no such trust labels: {', '.join(sorted(unknown))}")
    return stored_in_order(found)


def stored_in_order(labels: Iterable[str]) -> tuple[str, ...]:
    """Like `in_order`, for labels that were stored: another version's stay, after those that this one knows."""
    found = set(labels)
    return (*(name for name in TRUST if name in found), *sorted(found - TRUST.keys()))
