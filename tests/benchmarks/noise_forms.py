"""Forms of noise: simulated phones to tune a method on, and others to judge it by."""

from dataclasses import replace
from typing import Any

from workers.devices.fake.phones import PHONES, Phone

_FORMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # name: what it has when methods are tuned, and when they are judged
    "processes_low": ({"process_cv": 0.008}, {"process_cv": 0.005}),
    "processes_middle": ({"process_cv": 0.015}, {"process_cv": 0.02}),
    "processes_high": ({"process_cv": 0.03}, {"process_cv": 0.04}),
    "ar1_low": ({"sample_cv": 0.06, "ar1": 0.3}, {"sample_cv": 0.05, "ar1": 0.2}),
    "ar1_high": ({"sample_cv": 0.06, "ar1": 0.7}, {"sample_cv": 0.05, "ar1": 0.8}),
    "heavy_tails": ({"sample_cv": 0.04, "tail_degrees": 3.0}, {"sample_cv": 0.05, "tail_degrees": 2.5}),
    "two_states": (
        {"daemon_every_s": 60.0, "daemon_s": 30.0, "daemon_slower": 1.2},
        {"daemon_every_s": 40.0, "daemon_s": 25.0, "daemon_slower": 1.3},
    ),
    "drift": (
        {"heating_c_per_s": 0.1, "drift_per_c": 0.004},
        {"heating_c_per_s": 0.125, "drift_per_c": 0.003},
    ),
    "bursts": (
        {"daemon_every_s": 15.0, "daemon_s": 1.0, "daemon_slower": 2.5},
        {"daemon_every_s": 10.0, "daemon_s": 1.5, "daemon_slower": 2.0},
    ),
    "unequal": (
        {"process_cv": 0.012, "wild_share": 0.2, "wild_factor": 3.0},
        {"process_cv": 0.01, "wild_share": 0.3, "wild_factor": 5.0},
    ),
}

_PLAIN_NOISE = replace(PHONES["cool"], sample_cv=0.03, process_cv=0.01)

NOISE_FORMS: dict[str, Phone] = {
    f"{purpose}_{form}": replace(_PLAIN_NOISE, name=f"{purpose}_{form}", **parameters[place])
    for place, purpose in enumerate(("tune", "judge"))
    for form, parameters in _FORMS.items()
}
"""Cool phones with one form of noise each, twice: a method that is tuned on `tune_*` is judged by `judge_*`, which has
other parameters. No device `fake:NAME` has them."""
