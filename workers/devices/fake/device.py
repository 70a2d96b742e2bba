"""A simulated phone as a device: real files, real evaluations, simulated time. Its times say nothing of a real phone.

Blocks run on the phone's virtual clock and take no time on this host. Evaluations run on this host, so accuracy is
real. Both warm the phone.
"""

import argparse
import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import NormalDist

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError, did_you_mean
from workers.devices.fake import runner as fake_runner
from workers.devices.fake.phones import PHONES
from workers.devices.fake.physics import SimulatedBlock, SimulatedPhone
from workers.devices.interface import Completed, Sensors
from workers.devices.linux.competing import is_runner
from workers.devices.local import LocalDevice, from_os_error, local_facts

_MEDIAN_MS = 10.0
_SIGMA = 0.35
"""Latencies of artifacts that are not in `true_ms` are lognormal, with the spread of real variants."""
_THREADS_GAIN = 0.7
"""n threads are n ** 0.7 times as fast as one; an assumption, not measured."""
_FLOAT_BYTES = 4
_Run = tuple[argparse.Namespace, float, str]
"""The arguments of one run, the latency (ms) of one inference at the ambient temperature without noise, and the sha256
of the artifact."""


class FakeDevice:
    """The phone `name` of `PHONES`, cool and idle at time 0. Its fixed-performance mode stays on after this process
    ends.

    An artifact's true latency is its entry in `true_ms` (ms with one thread, by the sha256 of the file), or else
    derived from the file's hash and the phone's name.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        seed: int = 0,
        true_ms: Mapping[str, float] | None = None,
    ) -> None:
        """Create the phone. Raises `DeviceError("unknown_device", ...)`."""
        if name not in PHONES:
            raise DeviceError(
                "unknown_device",
                f"there is no simulated phone {name!r}{did_you_mean(name, PHONES)}",
                f"use one of: {', '.join(f'fake:{phone}' for phone in PHONES)}",
            )
        self._name = name
        self._host = LocalDevice(folder / f"fake-{name}")
        self._mode = folder / f"fake-{name}" / "fixed-performance-is-on"
        self._true_ms = {} if true_ms is None else true_ms
        self._phone = SimulatedPhone(PHONES[name], seed)
        self._phone.fixed_performance = self._mode.exists()

    @property
    def fixed_performance(self) -> bool:
        """Tell whether the fixed-performance mode is on now; real phones do not report it."""
        return self._phone.fixed_performance

    def facts(self) -> DeviceFacts:
        host, phone = local_facts(), self._phone.phone
        return DeviceFacts(
            device_id=f"fake-{self._name}",
            name=f"fake:{self._name}",
            maker="EdgeSweep",
            model=f"simulated phone {self._name}",
            soc=phone.soc,
            os_build=f"simulation {fake_runner.VERSION}",
            # The ABI and the features are the host's, because evaluations run there.
            abi=host.abi,
            cpu_features=host.cpu_features,
            runtime_versions=host.runtime_versions,
            qengines=host.qengines,
            cores=phone.cores,
            ram_bytes=phone.ram_bytes,
            exec_context="simulated",
        )

    def run(self, argv: Sequence[str], deadline_s: float) -> Completed:
        """Run a program. A runner's block is simulated; a runner's evaluation, and every other program, runs on this
        host."""
        started_s = self._phone.now_s
        completed = self._runner(argv, deadline_s) if is_runner(argv) else self._on_host(argv, deadline_s)
        taken_s = self._phone.now_s - started_s
        if taken_s > deadline_s:
            raise DeviceError("timeout", f"{Path(argv[0]).name} ran longer than {deadline_s:.0f} s and was killed")
        return completed

    def take_lock(self) -> None:
        """Does nothing: only this process has this phone."""

    def release(self) -> None:
        """Does nothing: only this process has this phone."""

    def end_orphans(self) -> tuple[str, ...]:
        return ()  # Programs end with their driver.

    def push(self, source: Path, name: str, *, sha256: str | None = None) -> str:
        path = self._host.push(source, name)
        self._phone.push(Path(path).stat().st_size)
        return path

    def pull(self, path: str, target: Path, most_bytes: int) -> None:
        self._host.pull(path, target, most_bytes)

    def remove(self, path: str) -> None:
        self._host.remove(path)

    def sensors(self, *, load: bool = True) -> Sensors:
        phone = self._phone
        return Sensors(
            temp_c=phone.temp_c,
            temp_is_battery=True,
            thermal_status=phone.thermal_status,
            has_battery=True,
            battery_percent=phone.battery_percent,
        )

    def now_s(self) -> float:
        return self._phone.now_s

    def rest(self, seconds: float) -> None:
        self._phone.rest(seconds)

    def set_fixed_performance(self, on: bool) -> bool:
        if not self._phone.phone.has_fixed_performance:
            return False
        try:
            if on:
                self._mode.parent.mkdir(parents=True, exist_ok=True)
                self._mode.touch()
            else:
                self._mode.unlink(missing_ok=True)
        except OSError as error:
            raise from_os_error(error) from error
        self._phone.fixed_performance = on
        return True

    def _on_host(self, argv: Sequence[str], deadline_s: float) -> Completed:
        """Run a program on this host. The simulated phone is idle for the time that the program takes."""
        began = time.monotonic()
        try:
            return self._host.run(argv, deadline_s)
        finally:
            self._phone.rest(time.monotonic() - began)

    def _runner(self, argv: Sequence[str], deadline_s: float) -> Completed:
        try:
            items = fake_runner.batch_items(argv)
            if items is not None:
                return Completed(exit_code=0, stdout=self._batch(items), stderr=b"")
            arguments, model_ms, _ = self._parsed(argv)
        except fake_runner.GiveUp as given_up:
            return Completed(exit_code=fake_runner.ERROR_EXIT, stdout=given_up.report(), stderr=b"")
        if arguments.eval_inputs is not None:
            return self._evaluate(argv, arguments, model_ms, deadline_s)
        block = self._phone.block(model_ms, **fake_runner.length(arguments))
        return Completed(exit_code=0, stdout=self._report(arguments, block), stderr=b"")

    def _batch(self, items: Sequence[Sequence[str]]) -> bytes:
        """Return the report of one batch process. An item of the batch that gives up does so before it takes any
        time."""
        runs = [_or_given_up(self._parsed, words) for words in items]
        started = [run for run in runs if not isinstance(run, fake_runner.GiveUp)]
        blocks = iter(self._phone.batch([(model_ms, fake_runner.length(parsed)) for parsed, model_ms, _ in started]))
        reports: list[tuple[str | None, bytes]] = [
            (None, run.report())
            if isinstance(run, fake_runner.GiveUp)
            else (run[2], self._report(run[0], next(blocks)))
            for run in runs
        ]
        return fake_runner.batch_report(reports)

    def _parsed(self, argv: Sequence[str]) -> _Run:
        cores = self._phone.phone.cores
        arguments = fake_runner.arguments(argv, cores)
        digest = _sha256(arguments.model)
        alone_ms = self._true_ms.get(digest) or _derived_ms(self._name, digest)
        return arguments, alone_ms / math.pow(min(arguments.threads, cores), _THREADS_GAIN), digest

    def samples_of(self, block: SimulatedBlock) -> list[float]:
        """Return the samples of a block as its report has them, in ns."""
        return [*block.samples_ns.tolist()]

    def _report(self, arguments: argparse.Namespace, block: SimulatedBlock) -> bytes:
        torch = dict(local_facts().runtime_versions).get("torchscript", "none")
        return fake_runner.report(arguments, block, self.samples_of(block), torch)

    def _evaluate(
        self, argv: Sequence[str], arguments: argparse.Namespace, model_ms: float, deadline_s: float
    ) -> Completed:
        # The host may have fewer CPUs than the phone.
        completed = self._host.run([*argv, "--cpus", "all"], deadline_s)
        if completed.exit_code == 0:
            images = Path(arguments.eval_inputs).stat().st_size // (_FLOAT_BYTES * math.prod(arguments.input_dims[1:]))
            self._phone.block(
                model_ms,
                warmup_iterations=0,
                warmup_seconds=0.0,
                iterations=math.ceil(images / arguments.input_dims[0]),
                min_seconds=0.0,
                max_seconds=deadline_s,
            )
        return completed


def _or_given_up(parse: Callable[[Sequence[str]], _Run], words: Sequence[str]) -> _Run | fake_runner.GiveUp:
    try:
        return parse(words)
    except fake_runner.GiveUp as given_up:
        return given_up


def _derived_ms(phone: str, digest: str) -> float:
    mixed = hashlib.sha256(f"{phone}:{digest}".encode()).digest()
    share = ((int.from_bytes(mixed[:8], "big") >> 12) + 0.5) / 2**52
    return _MEDIAN_MS * math.exp(NormalDist(0.0, _SIGMA).inv_cdf(share))


def _sha256(model: str) -> str:
    try:
        with Path(model).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise fake_runner.GiveUp("no_model", f"there is no file {model}") from error
