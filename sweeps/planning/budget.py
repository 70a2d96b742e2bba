"""The budget of a sweep whose file gives neither budget nor preset: a race if it has many variants, otherwise full.
Pure.

The budget is decided when the sweep is first planned, and kept: it decides the preset, on which job keys depend. So the
same sweep file may race as a new sweep, and run all its rounds in a workspace where it was planned before.
"""

from collections.abc import Mapping

from sweeps.errors import SpecError
from sweeps.protocol.presets import Protocol, protocol_of
from sweeps.spec.protocol import MinutesBudget
from sweeps.spec.sweep import SweepSpec

MANY = 8
"""A sweep races if it has more variants than this of one model on one device. With fewer, a race costs a few batches
more than it saves, and people can read all results as a table."""


_SHARED = "default: units that share the work do not race"


def keep_budget(sweep: SweepSpec, before: Protocol) -> tuple[SweepSpec, str]:
    """Return the sweep with the budget of its last plan, and a text that says where the budget comes from.

    A sweep file that gives a budget or a preset is returned as it is.
    """
    if sweep.budget is not None:
        return sweep, ""
    if sweep.share is not None:
        return _full(sweep), _SHARED
    minutes = before.device_minutes
    budget = before.budget if minutes is None else MinutesBudget(device_minutes=minutes)
    changed = sweep.model_copy(update={"budget": budget})
    if why_not := _refused(changed):
        return _full(sweep), f"this sweep raced before, but now {why_not}"
    alternative = "race" if budget == "full" else "full"
    return changed, f"kept, as this sweep had it before; write budget: {alternative} to change it"


def default_budget(sweep: SweepSpec, variants: Mapping[tuple[str, str], int]) -> tuple[SweepSpec, str]:
    """Return the sweep with the budget of a new sweep, and a text that says where the budget comes from.

    `variants`: the number of timed variants by model and device id, including those that will fail a constraint, which
    is not known yet. A sweep races if any model has more than `MANY` on any device, because the preset is the same for
    the whole sweep. A sweep file that gives a budget or a preset is returned as it is.
    """
    if sweep.budget is not None:
        return sweep, ""
    if sweep.share is not None:
        return _full(sweep), _SHARED
    most = max(variants.values(), default=0)
    raced = sweep.model_copy(update={"budget": "race"})
    if most <= MANY:
        return _full(sweep), f"default: no model has more than {MANY} variants on a device, which would race"
    if why_not := _refused(raced):
        return _full(sweep), f"default: {most} variants would race, but {why_not}"
    return raced, f"default: {most} variants of one model, more than {MANY}; write budget: full for all rounds of each"


def _full(sweep: SweepSpec) -> SweepSpec:
    return sweep.model_copy(update={"budget": "full"})


def _refused(sweep: SweepSpec) -> str:
    """Return the reason why the protocol of this sweep is refused; empty if it is not."""
    try:
        protocol_of(sweep)
    except SpecError as error:
        return error.message
    return ""
