"""The closed list of trust labels: reasons to doubt or disqualify a timing. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustLabel:
    """A reason to doubt a timing. A result with a disqualifying label is shown but cannot win; a result with an
    advisory label can."""

    name: str
    title: str
    """A short sentence for people."""
    disqualifying: bool
    why: str
    """What happened, or what is not known, as text."""
    todo: str
    """What to do about it."""
    fields: str = ""
    """The fields of a sweep file to change."""
    of_winner: str = ""
    """The text shown with a winner that has the label; empty if there is none."""
    doubts_original: bool = False
    """Whether constraints on accuracy count as not kept with this label: accuracy is measured against the original (the
    fp32 eager model), which is not shown to be right itself."""

    @property
    def advice(self) -> str:
        """The reason, and what to do."""
        return f"{self.why}: {self.todo}"

    @property
    def text(self) -> str:
        """The reason, what to do, and the fields to change."""
        return f"{self.advice} (fields: {self.fields})" if self.fields else self.advice


TRUST: dict[str, TrustLabel] = {
    label.name: label
    for label in (
        TrustLabel(
            name="throttled",
            title="The device throttled",
            fields="protocol.gate, protocol.fixed_performance",
            disqualifying=True,
            why="the device throttled during a block, or no longer reported whether it did",
            todo="let it cool, keep it out of the sun; edgesweep run SWEEP.yaml --retry-failed measures it again",
        ),
        TrustLabel(
            name="gate_timeout",
            title="The device was never ready",
            fields="protocol.gate: wait_seconds, max_cpu_temp_c, max_battery_temp_c, min_battery_percent; "
            "gate: none measures as it is",
            disqualifying=True,
            why="the device was not ready within the limit (too warm, battery too low, another benchmark running)",
            todo="remove the cause, or raise the limit; edgesweep run SWEEP.yaml --retry-failed measures it again",
        ),
        TrustLabel(
            name="backend_fell_back",
            title="Another backend ran",
            fields="grids: backend",
            disqualifying=True,
            why="another backend ran than was requested",
            todo="the time is the time of that backend",
        ),
        TrustLabel(
            name="engine_differs",
            title="Another engine ran",
            fields="grids: qengine",
            disqualifying=True,
            why="another quantized engine ran than was requested",
            todo="use a runtime on the device that has it",
        ),
        TrustLabel(
            name="device_changed",
            title="The device changed its speed",
            fields="protocol.fixed_performance",
            disqualifying=True,
            why="the device itself changed speed for good while a round was measured",
            todo="find the cause; edgesweep run SWEEP.yaml --retry-failed measures it again",
        ),
        TrustLabel(
            name="invalid_output",
            title="An output is no number",
            fields="grids: precision, qengine; data.calibration",
            disqualifying=True,
            why="an output is not a finite number",
            todo="check the precision, the engine and the calibration data",
        ),
        TrustLabel(
            name="invalid_timing",
            title="The times are impossible",
            disqualifying=True,
            why="the samples fill less than 1 % of the time that their block lasts at least, or half of them are "
            "shorter than a clock can show (0.1 µs)",
            todo="find out what the program on the device times, and in which unit; compile EdgeSweep's runner anew",
        ),
        TrustLabel(
            name="profiled",
            title="A profiler ran beside it",
            disqualifying=True,
            why="a profiler or a capture ran beside it, which makes it slower",
            todo="measure it without one (edgesweep run SWEEP.yaml)",
        ),
        TrustLabel(
            name="ungated",
            title="Nobody knows if the device was cool",
            fields="protocol.gate",
            disqualifying=False,
            why="it is unknown whether the device was cool (no temperature sensor, or no gate was applied)",
            todo="keep the machine idle and compare within one sweep only",
        ),
        TrustLabel(
            name="virtual_phone",
            title="A virtual phone, not a real one",
            disqualifying=False,
            why="measured on a virtual phone",
            todo="the time is this computer's, not a phone's",
        ),
        TrustLabel(
            name="hot_start",
            title="The device started warm",
            fields="protocol.gate",
            disqualifying=False,
            why="there was no gate, and the block started warmer than the default gate allows",
            todo="let the device cool, or set a gate",
        ),
        TrustLabel(
            name="unstable",
            title="The last rounds differ",
            fields="protocol.rounds, protocol.max_rounds",
            disqualifying=False,
            why="the last rounds differ by more than 5 %",
            todo="add rounds, stop other programs",
        ),
        TrustLabel(
            name="device_moved",
            title="The device changed its speed meanwhile",
            disqualifying=False,
            why="the device itself changed speed while this build was measured (ratios hold, which are taken within "
            "rounds, but its blocks may be of the speed before, of the one after, or of both)",
            todo="find the cause, ask for fixed_performance",
        ),
        TrustLabel(
            name="two_speeds",
            title="The device has two speeds",
            fields="protocol.rounds, protocol.fixed_performance",
            disqualifying=False,
            why="the device went back and forth between two speeds, 5 % apart or more (processes lie around the one "
            "that it has more often, and the interval reaches from the fast one to the slow one, unless the rounds "
            "show which that is)",
            todo="add rounds, ask for fixed_performance",
        ),
        TrustLabel(
            name="few_samples",
            title="Few samples",
            fields="protocol.min_seconds, protocol.rounds, protocol.max_seconds",
            disqualifying=False,
            why="fewer than 64 samples in total, rounds missing, or a block cut short by max_seconds",
            todo="raise min_seconds, rounds or max_seconds",
        ),
        TrustLabel(
            name="one_block",
            title="Only one process, so no interval",
            fields="protocol.rounds",
            disqualifying=False,
            why="only one process, so no interval (processes of one artifact can differ by tens of percent)",
            todo="use 3 rounds or more",
        ),
        TrustLabel(
            name="coarse_clock",
            title="The clock is coarse",
            fields="protocol.min_seconds",
            disqualifying=False,
            why="all samples are multiples of one tick of the clock, over 1 % of a sample (a block's figure is the "
            "mean of its samples without spikes, p90 and p99 are ticks; the interval allows for the clock, and "
            "builds that lie within it may differ)",
            todo="raise min_seconds; where a tool rounds each sample by itself, put EdgeSweep's runner on the device",
            of_winner="the device's clock is coarse (coarse_clock): builds that lie within the winner's interval may "
            "be faster",
        ),
        TrustLabel(
            name="bursts",
            title="Load came in bursts",
            disqualifying=False,
            why="load came in bursts (for 5 % of a block's time or more, successive samples are over 15 % slower "
            "than its median; the p50 hardly shows them, p90 and p99 do)",
            todo="stop other programs",
        ),
        TrustLabel(
            name="outliers",
            title="Many outliers",
            disqualifying=False,
            why="over 10 % of a block's samples are outliers, so its p90 shows them",
            todo="stop other programs",
        ),
        TrustLabel(
            name="reference_at_chance",
            title="The original itself is at chance",
            fields="models.weights; data.evaluation: path, mean, std, crop",
            disqualifying=False,
            doubts_original=True,
            why="the original is not shown to be right on the evaluation images more often than whoever always "
            "gives their most frequent label, so nothing that is told against it means anything",
            todo="edgesweep plan SWEEP.yaml --check tells its figure and the likely cause",
        ),
        TrustLabel(
            name="reference_one_answer",
            title="The original gives one answer far too often",
            fields="data.evaluation: path, mean, std, crop",
            disqualifying=False,
            doubts_original=True,
            why="the original gives one answer for far more evaluation images than have that label",
            todo="as a rule, they are prepared in another way than in training; edgesweep plan SWEEP.yaml --check "
            "tells the likely cause",
        ),
        TrustLabel(
            name="reference_other_order",
            title="The original's classes stand in another order",
            fields="data.evaluation.path",
            disqualifying=False,
            doubts_original=True,
            why="the original's answers fit the labels far better in another order of the classes",
            todo="name the folders so that they sort in the order of your training",
        ),
        TrustLabel(
            name="reference_other_classes",
            title="The original's classes are not those of the folders",
            fields="models; data.evaluation.path",
            disqualifying=False,
            doubts_original=True,
            why="the original has another number of outputs than there are folders, and its answers do not fit the "
            "first of its classes",
            todo="give one folder for each class, or the head that was trained on these",
        ),
        TrustLabel(
            name="reference_split",
            title="Folders may be no classes",
            fields="data.evaluation.path",
            disqualifying=False,
            doubts_original=True,
            why="folders are named like splits of a data set (train, val, test) or hold all their images in sub- "
            "folders, and the original does not answer them as classes",
            todo="give the folder that holds the classes",
        ),
        TrustLabel(
            name="part_of_images",
            title="Accuracy of a part of the images",
            disqualifying=False,
            why="the accuracy is over at most the first 100 images, because the runtime's own benchmark tool needs "
            "one process per image",
            todo="put EdgeSweep's runner on the device, which evaluates all images",
        ),
        TrustLabel(
            name="host_answers",
            title="Accuracy of this computer's run",
            disqualifying=False,
            why="the accuracy is that of the same file on the computer, whose int8 may answer otherwise than the "
            "device's, because the runtime's own benchmark tool tells no answers",
            todo="put EdgeSweep's runner on the device, which tells them",
        ),
        TrustLabel(
            name="threads_unknown",
            title="Nobody knows how many threads ran",
            disqualifying=False,
            why="it is unknown how many threads ran, because the runtime's own benchmark tool does not report it, "
            "and was only asked for the job's number",
            todo="put EdgeSweep's runner on the device, which reports it",
        ),
        TrustLabel(
            name="mean_only",
            title="Only a mean, with the warm-up",
            disqualifying=False,
            why="each process told only the mean of all its iterations, its slow first ones included, and no "
            "percentiles",
            todo="use a newer build of the runtime's own benchmark tool, or put EdgeSweep's runner on the device",
        ),
        TrustLabel(
            name="busy_host",
            title="Other programs ran on the machine",
            fields="protocol.gate.max_load, protocol.gate.load_wait_seconds",
            disqualifying=False,
            why="other programs used over 15 % of the CPU time just before a block, or the hypervisor over 5 % "
            "during one",
            todo="stop them, or use a machine that is not shared, and measure again",
        ),
    )
}
"""The closed list, disqualifying labels first."""


def readiness(gate: str, labels: Iterable[str]) -> str:
    """Return for people which conditions the blocks of results with these labels waited for. `gate`: as in
    `sweeps.results.ComparisonConditions`."""
    if gate != "gated":
        return "blocks did not wait for a ready device"
    if "ungated" in labels:
        return "blocks waited for what this device tells, which is no temperature: it is unknown whether it was cool"
    return "every block waited for a ready device"


def disqualified(labels: Iterable[str]) -> list[str]:
    """Return the labels that exclude a result from winning, deciding and comparing, including labels unknown to this
    version."""
    return [label for label in labels if label not in TRUST or TRUST[label].disqualifying]


def said_of_winner(labels: Iterable[str]) -> list[str]:
    """Return the texts to show with a winner that has these labels."""
    return [TRUST[label].of_winner for label in labels if label in TRUST and TRUST[label].of_winner]


def original_doubted(labels: Iterable[str]) -> list[TrustLabel]:
    """Return the labels that put the original in doubt, so that no constraint on accuracy counts as kept."""
    return [TRUST[label] for label in labels if label in TRUST and TRUST[label].doubts_original]


def in_order(labels: Iterable[str]) -> tuple[str, ...]:
    """Return each label once, in the order of `TRUST`. Raises `ValueError` for a label that is not in `TRUST`."""
    present = set(labels)
    if unknown := present - TRUST.keys():
        raise ValueError(f"no such trust labels: {', '.join(sorted(unknown))}")
    return stored_in_order(present)


def stored_in_order(labels: Iterable[str]) -> tuple[str, ...]:
    """Return each stored label once like `in_order`: labels unknown to this version are kept, after the known ones."""
    present = set(labels)
    return (*(name for name in TRUST if name in present), *sorted(present - TRUST.keys()))
