"""Keys: what makes two builds the same artifact, and two jobs the same measurement. Pure.

A key is never taken from results; what it holds is known before anything is built.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from sweeps.device_facts import DeviceFacts, canonical_key
from sweeps.planning.axes import is_calibrated
from sweeps.protocol.presets import Protocol
from sweeps.records import SCHEMA_VERSION
from sweeps.spec.inputs import ModelSpec
from sweeps.variant import RunAxes, Variant


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelIdentity:
    """What a build key knows of a model: all of it known before the model is loaded."""

    source: str
    """`torchvision:mobilenet_v2`, or `module:function@<sha256 of its source files>`."""
    weights_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Identities:
    """Everything outside the sweep file that the keys depend on, handed in by the caller."""

    models: Mapping[str, ModelIdentity]
    """By the model's name in the sweep file."""
    calibration_id: str
    """sha256 of the calibration manifest."""
    evaluation_id: str
    versions: Mapping[str, str]
    """Of every library and of the builder: `torch`, `torchvision`, `builder`."""
    own_versions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Per runtime its own part of them: a sweep with several runtimes has the build keys of a sweep with one."""
    runners: Mapping[str, str]
    """Per runtime, the runner and its version; a device that another one was brought to says so in its facts."""
    references: Mapping[str, str] = field(default_factory=dict)
    """Per backend that a host can check without the silicon: `reference:<backend>@<version>`."""


def build_key(model: ModelSpec, variant: Variant, identities: Identities) -> str:
    """Two builds with one key are the same artifact."""
    identity = identities.models[model.name]
    return canonical_key(
        {
            "model_source": identity.source,
            "arguments": model.arguments,
            "weights_id": identity.weights_id,
            "input_shape": list(model.input_shape),
            "variant": variant.axes(),
            "calibration_id": identities.calibration_id if is_calibrated(variant) else None,
            "versions": dict(identities.own_versions.get(variant.runtime, identities.versions)),
        }
    )


def job_key(
    build_key: str,
    facts: DeviceFacts,
    run: RunAxes,
    protocol: Protocol,
    runner: str,
    reference: str,
    *,
    replicate: int,
) -> str:
    """`replicate` counts identical jobs under different names, so that a variant entered twice is measured twice;
    the names themselves are not in the key, so that renaming a grid measures nothing again. The reference is in the
    keys of those that it checks, so that what failed under one version gets another chance under the next."""
    return canonical_key(
        ({"reference": reference} if reference else {})
        | {
            "build_key": build_key,
            "device_id": facts.device_id,
            "fingerprint": facts.fingerprint,
            "run": asdict(run),
            "protocol": protocol.comparable(),
            "runner": runner,
            "schema_version": SCHEMA_VERSION,
            "replicate": replicate,
        }
    )


def runner_of(facts: DeviceFacts, runtime: str, identities: Identities) -> str:
    """What runs there: a program that was brought to the device, else the runtime's own."""
    return dict(facts.runners).get(runtime, identities.runners[runtime])
