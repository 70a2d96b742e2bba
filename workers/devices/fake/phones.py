"""The parameters of simulated phones: heat, noise, the scheduler. Named sets, from cool to hot."""

from dataclasses import dataclass, replace

from workers.devices.fake.ticks import Ticks


@dataclass(frozen=True, slots=True, kw_only=True)
class Phone:
    """The parameters of one kind of phone. Shares and factors are plain numbers: 0.03 is 3 %.

    The figures of the named sets are assumptions, not measurements: they cover the problems in published measurements.
    """

    name: str
    soc: str = "simulated"
    cores: int = 8
    ram_bytes: int = 6_000_000_000
    ambient_c: float = 25.0
    cooling_s: float = 240.0
    """The time constant (s) of Newton's law of cooling: after this time at rest, 37 % of the excess temperature is
    left."""
    heating_c_per_s: float = 0.0
    """The speed at which a busy phone would warm without cooling; the phone settles at `heating_c_per_s * cooling_s`
    above the ambient temperature."""
    drift_per_c: float = 0.0
    """The share by which latency grows per degree above the ambient temperature."""
    throttles_at_c: float = 100.0
    throttled_slower: float = 1.5
    """The factor on latency from `throttles_at_c` on."""
    sample_cv: float = 0.02
    """The coefficient of variation of single samples within a process."""
    tail_degrees: float | None = None
    """The degrees of freedom of the Student's t distribution of the logarithm's noise (then without AR(1)); `None`:
    normal distribution."""
    ar1: float = 0.0
    """The correlation between the logarithms of neighbouring samples."""
    spike_share: float = 0.0
    spike_slower: tuple[float, float] = (2.0, 5.0)
    """The range of a spike's factor, which is distributed uniformly."""
    process_cv: float = 0.004
    """The coefficient of variation between processes of the same artifact."""
    wild_share: float = 0.0
    """The share of variants whose processes differ more."""
    wild_factor: float = 1.0
    """The factor on the spread (of the logarithms) between the processes of such a variant."""
    little_share: float = 0.0
    """The share of processes that the scheduler leaves on the little cores."""
    little_slower: float = 1.0
    """The factor on the latency of a process on the little cores."""
    daemon_every_s: float = 0.0
    """The mean time between the wake-ups of a daemon (s); 0: none."""
    daemon_s: float = 0.0
    """The mean time that a daemon stays awake (s)."""
    daemon_slower: float = 1.0
    start_s: float = 0.25
    """The time from the shell command to the first line that the runner prints (s)."""
    load_s: float = 0.05
    first_inference_slower: float = 3.0
    cold_slower: float = 1.3
    """The factor on latency at the start of a process, because the clock rates are low; it decays with `cold_s`."""
    cold_s: float = 0.04
    """The time constant of that decay (s)."""
    ticks: Ticks | None = None
    """The phone's clock, and how its runner rounds; `None`: whole nanoseconds."""
    push_bytes_per_s: float = 30e6
    has_fixed_performance: bool = False
    """Tells whether the phone has Android's fixed-performance mode."""
    battery_percent: float = 90.0
    battery_busy_percent_per_hour: float = 20.0
    battery_rest_percent_per_hour: float = 2.0


_BASE = Phone(name="cool")

PHONES: dict[str, Phone] = {
    phone.name: phone
    for phone in (
        _BASE,
        replace(_BASE, name="steady", sample_cv=0.01, process_cv=0.002, has_fixed_performance=True),
        replace(_BASE, name="noisy", sample_cv=0.10, process_cv=0.02),
        replace(_BASE, name="correlated", sample_cv=0.05, process_cv=0.01, ar1=0.5),
        # This phone has 25 to 55 °C when it is always busy: the gate at 37 °C opens and closes within a sweep.
        replace(_BASE, name="drifting", sample_cv=0.05, process_cv=0.01, heating_c_per_s=0.125, drift_per_c=0.003),
        replace(_BASE, name="spiky", sample_cv=0.05, process_cv=0.01, spike_share=0.03),
        replace(
            _BASE,
            name="hot",
            sample_cv=0.03,
            process_cv=0.006,
            heating_c_per_s=0.2,
            drift_per_c=0.0005,
            throttles_at_c=39.0,
        ),
        # No method was tuned on the following phones.
        replace(_BASE, name="holdout_heavy_tails", sample_cv=0.05, tail_degrees=2.5, process_cv=0.015),
        replace(
            _BASE,
            name="holdout_big_little",
            sample_cv=0.04,
            ar1=0.3,
            process_cv=0.01,
            little_share=0.2,
            little_slower=1.6,
        ),
        replace(
            _BASE,
            name="holdout_daemons",
            sample_cv=0.04,
            ar1=0.2,
            spike_share=0.01,
            process_cv=0.01,
            heating_c_per_s=0.06,
            drift_per_c=0.001,
            daemon_every_s=30.0,
            daemon_s=4.0,
            daemon_slower=1.35,
        ),
    )
}
