"""Keys: builds with equal keys are the same artifact, jobs with equal keys the same measurement. Pure.

A key does not depend on results: everything in it is known before anything is built.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from sweeps.device_facts import AND, DeviceFacts, canonical_key
from sweeps.planning.axes import is_calibrated
from sweeps.protocol.presets import Protocol
from sweeps.records import SCHEMA_VERSION
from sweeps.spec import toolchains
from sweeps.spec.model_inputs import ModelSpec
from sweeps.variant import INSTALLED, RunAxes, Variant


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelIdentity:
    """Part of a build key that identifies a model; known before the model is loaded."""

    source: str
    """`torchvision:mobilenet_v2`, or `module:function@<sha256 of its source files>`."""
    weights_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Identities:
    """Everything outside the sweep file on which keys depend; the caller provides it."""

    models: Mapping[str, ModelIdentity]
    """Identity of each model, by its name in the sweep file."""
    calibration_id: str
    """sha256 of the calibration manifest."""
    evaluation_id: str
    versions: Mapping[str, str]
    """Versions of all libraries and of the builder: `torch`, `torchvision`, `builder`."""
    own_versions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Part of `versions` that concerns each runtime, by its name, so that build keys do not depend on the sweep's other
    runtimes."""
    runners: Mapping[str, str]
    """Runner and its version by runtime, unless the device's facts name another runner."""
    references: Mapping[str, str] = field(default_factory=dict)
    """Reference implementation of each backend that a host can check without the accelerator, as
    `reference:<backend>@<version>`."""
    own_references: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Part of `references` that concerns each runtime, by its name: a reference runs the files of one runtime."""

    def reference(self, variant: Variant) -> str:
        """Return the reference implementation that replaces the variant's backend; empty if there is none."""
        return self.own_references.get(variant.runtime, self.references).get(variant.backend, "")


def build_key(model: ModelSpec, variant: Variant, identities: Identities) -> str:
    """Return the key of a build: builds with equal keys are the same artifact."""
    identity = identities.models[model.name]
    installed = identities.own_versions.get(variant.runtime, identities.versions)
    return canonical_key(
        {
            "model_source": identity.source,
            "arguments": model.arguments,
            "weights_id": identity.weights_id,
            "input_shape": list(model.input_shape),
            "variant": variant.axes(),
            "calibration_id": identities.calibration_id if is_calibrated(variant) else None,
            "versions": toolchains.versions_with(installed, variant.toolchain, variant.runner_toolchain),
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
    """Return the key of a job. `replicate` numbers identical jobs with different names, so that a variant listed twice
    is measured twice. Names are not in the key, so that a renamed grid is not measured again. `reference` is in the key
    of a job that it checks, so that failed jobs are tried again with the reference's next version."""
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


def runner_of(facts: DeviceFacts, variant: Variant, identities: Identities) -> str:
    """Return the runner of a device with its versions: the runner that was pushed to the device, otherwise the
    runtime's own.

    The device's text also names the release of the runtime's library that is installed there. That part is removed if
    the variant chooses another release, which is in the build key.
    """
    runner = dict(facts.runners).get(variant.runtime, identities.runners[variant.runtime])
    if variant.runner_toolchain == INSTALLED:
        return runner
    package = toolchains.toolchain(variant.runner_toolchain).package
    words = runner.split(AND)
    return AND.join(word for word in words if not word.startswith(f"{package} ")) or runner
