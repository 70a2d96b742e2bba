"""The kinds of skips: why a combination of a grid is not tried. The only list; a test compares it with the code.

A kind is the stable word in `Skip` and `Skipped`. The details are in the reason of each skip.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Skip:
    """The skip of one variant that is impossible or pointless on one device."""

    kind: str
    """One of `SKIPS`, or a kind of another package's runtime."""
    reason: str
    """The details for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipKind:
    meaning: str
    why: str
    todo: str


SKIPS: Mapping[str, SkipKind] = MappingProxyType(
    {
        "duplicate": SkipKind(
            meaning="it would be the same artifact as another combination",
            why="an axis changes nothing there: quantization fuses by itself, for example",
            todo="nothing: the other combination is measured",
        ),
        "no_effect": SkipKind(
            meaning="the axis has no effect on this backend",
            why="for example Metal keeps a layout of its own",
            todo="nothing, or take the value out of that axis of grids",
        ),
        "not_of_runtime": SkipKind(
            meaning="the runtime does not have this value",
            why="in one grid every runtime meets the values of all",
            todo="nothing, or give each runtime a grid of its own",
        ),
        "no_such_interface": SkipKind(
            meaning="int8 made in this way cannot begin or end with these numbers",
            why="dynamic quantization keeps floats between layers, and on the CPU there are core and full only",
            todo="write interface: [core] in grids",
        ),
        "no_quantized_engine": SkipKind(
            meaning="the device's PyTorch has no kernels of this engine for int8",
            why="engines belong to a kind of CPU: qnnpack to Arm, x86 and onednn to x86",
            todo="write qengine: [auto] in grids, or an engine of the device (edgesweep devices)",
        ),
        "backend_not_on_device": SkipKind(
            meaning="the device cannot run this backend",
            why="it is another kind of device, or its runtime was compiled without the backend",
            todo="measure on a device that has it, or take the backend out of grids",
        ),
        "not_in_blocks": SkipKind(
            meaning="the layout is for a CPU that computes in blocks of 16 channels",
            why="on x86 ONNX Runtime does so with AVX-512 only; of other CPUs it is not known",
            todo="nothing: nchw is the layout for it",
        ),
        "not_all_optimized": SkipKind(
            meaning="the layout is for a graph that ONNX Runtime optimises wholly",
            why="with less, it does not compute in blocks of channels",
            todo="write graph_optimization: [all] in grids",
        ),
        "needs_compiler": SkipKind(
            meaning="models for this backend are checked by a program that must be compiled here first",
            why="there is no C++ compiler",
            todo="install one: apt-get install g++",
        ),
        "nnapi_level": SkipKind(
            meaning="the phone's version of Android is too old for this",
            why="weights per channel came with a later level of NNAPI",
            todo="write granularity: [per_tensor] in grids, or use a newer phone",
        ),
        "not_on_nnapi": SkipKind(
            meaning="NNAPI knows no such int8",
            why="it takes static quantization only",
            todo="write quantization: [static] in grids",
        ),
        "not_on_metal": SkipKind(
            meaning="Metal cannot run this, or not on this device",
            why="PyTorch's Metal backend has float operators only, and needs Apple's A9 chip or later",
            todo="keep precision: [fp32] for metal",
        ),
        "no_such_cores": SkipKind(
            meaning="the device has no such group of CPUs",
            why="all its CPUs are alike, or it does not tell",
            todo="write cpus: [all] in grids, or the numbers of CPUs",
        ),
        "needs_python": SkipKind(
            meaning="the device has no Python with torch",
            why="the model as its author wrote it runs in Python only",
            todo="take eager out of runtime in grids, or measure it on this computer",
        ),
        "no_such_release": SkipKind(
            meaning="the device gets no runner of this release",
            why="a phone runs the release whose library lies beside its runner",
            todo="write runner_toolchain: [installed] in grids, or put the release's library there, as edgesweep "
            "explain runtimes says",
        ),
        "no_program_there": SkipKind(
            meaning="there is no program of this runtime for the device",
            why="it was not compiled for the device's ABI",
            todo="compile the runner, as edgesweep explain android-runtime says",
        ),
    }
)
