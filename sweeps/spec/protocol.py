"""The measurement protocol in a sweep file: rounds, iterations, the gate, the time budget."""

from typing import Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from sweeps.spec.fields import Part, wrong


def _limit(default: float, description: str, **bounds: Any) -> Any:
    # `None` means the preset's value. The schema shows the value of most presets; descriptions name the others.
    return Field(default=None, description=description, json_schema_extra={"default": default}, **bounds)


class GateSpec(Part):
    """What a device waits for before a block. What it has no sensor for is not waited for."""

    max_battery_temp_c: float | None = _limit(37.0, "Of a phone's battery, °C.", ge=0, le=60)
    max_cpu_temp_c: float | None = _limit(70.0, "Of the hottest zone of a host, °C.", ge=0, le=110)
    max_thermal_status: int | None = _limit(0, "Android's: 0 none, 1 light, 2 moderate, ...", ge=0, le=6)
    min_battery_percent: float | None = _limit(30.0, "Where there is a battery.", ge=0, le=100)
    max_load: float | None = _limit(0.15, "Share of the CPU time that other programs may take (0 to 1).", gt=0, le=1)
    wait_seconds: float | None = _limit(1200.0, "Wait so long before one block; quick: 60.", ge=0, le=86_400)
    load_wait_seconds: float | None = _limit(
        60.0,
        "Of wait_seconds, wait so long for other programs before a block, and so long in vain in a run; quick: 10.",
        ge=0,
        le=86_400,
    )

    @field_validator("load_wait_seconds")
    @classmethod
    def _waits_agree(cls, part: float | None, info: ValidationInfo) -> float | None:
        whole = info.data.get("wait_seconds")
        # The check is for sweep files only: stored sweeps from before this check must stay readable.
        if info.context and whole is not None and part is not None and part > whole:
            raise wrong(f"load_wait_seconds ({part:g}) is more than wait_seconds ({whole:g}), of which it is a part")
        return part


class ProtocolSpec(Part):
    """A preset of the measurement protocol; every figure can be overridden."""

    preset: Literal["quick", "full", "race", "recipe"] | None = Field(
        default=None, description="If left out: race where the budget races, else quick."
    )
    rounds: int | None = Field(
        default=None, ge=1, le=100, description="Blocks of each job at least, each its own process."
    )
    max_rounds: int | None = Field(
        default=None,
        ge=1,
        le=1_000,
        description="And at most, for jobs that are not stable or not decided by then; a race has none after its last "
        "look.",
    )
    warmup_iterations: int | None = Field(default=None, ge=0, le=1_000_000, description="At least so many, untimed.")
    warmup_seconds: float | None = Field(default=None, ge=0, le=3600, description="At least so long, untimed.")
    iterations: int | None = Field(default=None, ge=1, le=10_000_000, description="A block times at least so many.")
    min_seconds: float | None = Field(default=None, ge=0, le=3600, description="A block takes at least so long.")
    max_seconds: float | None = Field(default=None, gt=0, le=3600, description="A block is ended after so long.")
    seed: int = Field(default=0, ge=0, description="Shuffles the order of jobs within each round.")
    gate: GateSpec | Literal["none"] | None = Field(
        default=None, description="What the device has to be like before a block; none: measure as it is."
    )
    on_not_ready: Literal["fail", "mark"] | None = Field(
        default=None,
        description="A device that is not ready in time: fail the job, or measure and mark it so that it cannot win.",
    )
    fixed_performance: bool | None = Field(
        default=None, description="Ask Android for its fixed-performance mode while a block runs."
    )
    sentinel_every: int | None = Field(
        default=None,
        ge=0,
        le=10_000,
        description="Time a small built-in model at the start, after every so many blocks, and at the end; 0: never.",
    )

    @model_validator(mode="after")
    def _limits_agree(self, info: ValidationInfo) -> Self:
        if self.rounds is not None and self.max_rounds is not None and self.rounds > self.max_rounds:
            raise wrong(f"rounds ({self.rounds}) is more than max_rounds ({self.max_rounds})", "rounds")
        if self.min_seconds is not None and self.max_seconds is not None and self.min_seconds > self.max_seconds:
            raise wrong(
                f"min_seconds ({self.min_seconds:g}) is more than max_seconds ({self.max_seconds:g})", "min_seconds"
            )
        gateless = self.gate == "none" or (self.gate is None and self.preset == "recipe")
        # The check is for sweep files only: stored sweeps from before this check must stay readable.
        if info.context and gateless and self.on_not_ready == "fail":
            setting = "gate: none" if self.gate == "none" else "the preset recipe, which has no gate,"
            message = f"with {setting} every device counts as ready; leave out on_not_ready, or set a gate"
            raise wrong(message, "on_not_ready")
        return self


class MinutesBudget(Part):
    """So much time on each device, and no more: what cannot win any more leaves the rounds, as in a race."""

    device_minutes: float = Field(gt=0, le=100_000, description="With starts, warm-ups and waiting counted.")
