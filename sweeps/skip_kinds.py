"""Why a combination is skipped: a word for each sort of reason, and the phrases by which a plan's reason is known."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipReason:
    word: str
    phrases: tuple[str, ...]
    """Each reason of this sort has one of these."""
    meaning: str
    why: str
    todo: str


SKIP_REASONS = (
    SkipReason(
        word="duplicate",
        phrases=("duplicate of", "is the same artifact", "fp32 is the same, and faster"),
        meaning="it would be the same artifact as another combination",
        why="an axis changes nothing there: quantization fuses by itself, for example",
        todo="nothing: the other combination is measured",
    ),
    SkipReason(
        word="no_effect",
        phrases=("no effect:",),
        meaning="the axis has no effect on this backend",
        why="for example Metal keeps a layout of its own",
        todo="nothing, or take the value out of that axis of grids",
    ),
    SkipReason(
        word="not_of_runtime",
        phrases=(
            "torchscript has no",
            "onnxruntime has no",
            "executorch has no",
            "executorch takes pte files",
            "EdgeSweep builds fp32 for Vulkan",
            "torchscript captures by",
            "torchscript writes",
            "int8 is made by",
            "fp32 takes no quantization",
            "onnxruntime takes onnx files",
            "eager is the model",
            "eager runs on",
            "(it has:",
        ),
        meaning="the runtime does not have this value",
        why="in one grid every runtime meets the values of all",
        todo="nothing, or give each runtime a grid of its own",
    ),
    SkipReason(
        word="no_such_interface",
        phrases=("has the interfaces core and full", "dynamic int8 has floats"),
        meaning="int8 made in this way cannot begin or end with these numbers",
        why="dynamic quantization keeps floats between layers, and on the CPU there are core and full only",
        todo="write interface: [core] in grids",
    ),
    SkipReason(
        word="no_quantized_engine",
        phrases=("has no quantized engine", "no quantized engine is known"),
        meaning="the device's PyTorch has no kernels of this engine for int8",
        why="engines belong to a kind of CPU: qnnpack to Arm, x86 and onednn to x86",
        todo="write qengine: [auto] in grids, or an engine of the device (edgesweep devices)",
    ),
    SkipReason(
        word="backend_not_on_device",
        phrases=(
            "has no NNAPI",
            "has no Metal",
            "has no vulkan",
            "without the provider for",
            "was compiled without Vulkan",
        ),
        meaning="the device cannot run this backend",
        why="it is another kind of device, or its runtime was compiled without the backend",
        todo="measure on a device that has it, or take the backend out of grids",
    ),
    SkipReason(
        word="not_in_blocks",
        phrases=("is for CPUs with AVX-512",),
        meaning="the layout is for a CPU that computes in blocks of 16 channels",
        why="on x86 ONNX Runtime does so with AVX-512 only; of other CPUs it is not known",
        todo="nothing: nchw is the layout for it",
    ),
    SkipReason(
        word="not_all_optimized",
        phrases=("is for graph_optimization: all",),
        meaning="the layout is for a graph that ONNX Runtime optimises wholly",
        why="with less, it does not compute in blocks of channels",
        todo="write graph_optimization: [all] in grids",
    ),
    SkipReason(
        word="needs_compiler",
        phrases=("are checked here with a library that is compiled",),
        meaning="models for this backend are checked by a program that must be compiled here first",
        why="there is no C++ compiler",
        todo="install one: apt-get install g++",
    ),
    SkipReason(
        word="nnapi_level",
        phrases=("has NNAPI level",),
        meaning="the phone's version of Android is too old for this",
        why="weights per channel came with a later level of NNAPI",
        todo="write granularity: [per_tensor] in grids, or use a newer phone",
    ),
    SkipReason(
        word="not_on_nnapi",
        phrases=("NNAPI has no dynamic quantization",),
        meaning="NNAPI knows no such int8",
        why="it takes static quantization only",
        todo="write quantization: [static] in grids",
    ),
    SkipReason(
        word="not_on_metal",
        phrases=("Metal backend has no quantized operators", "Metal needs Apple's"),
        meaning="Metal cannot run this, or not on this device",
        why="PyTorch's Metal backend has float operators only, and needs Apple's A9 chip or later",
        todo="keep precision: [fp32] for metal",
    ),
    SkipReason(
        word="no_such_cores",
        phrases=("is not known to have big and little cores",),
        meaning="the device has no such group of CPUs",
        why="all its CPUs are alike, or it does not tell",
        todo="write cpus: [all] in grids, or the numbers of CPUs",
    ),
    SkipReason(
        word="needs_python",
        phrases=("eager needs Python",),
        meaning="the device has no Python with torch",
        why="the model as its author wrote it runs in Python only",
        todo="take eager out of runtime in grids, or measure it on this computer",
    ),
    SkipReason(
        word="no_such_release",
        phrases=("write runner_toolchain: [installed]",),
        meaning="the device gets no runner of this release",
        why="a phone runs the release whose library lies beside its runner",
        todo="write runner_toolchain: [installed] in grids, or put the release's library there, as edgesweep explain "
        "runtimes says",
    ),
    SkipReason(
        word="no_program_there",
        phrases=("be pushed to",),
        meaning="there is no program of this runtime for the device",
        why="it was not compiled for the device's ABI",
        todo="compile the runner, as edgesweep explain android-runtime says",
    ),
)


def skip_reasons(text: str) -> Iterator[SkipReason]:
    """Those that a reason of a plan is of."""
    for one in SKIP_REASONS:
        if any(phrase in text for phrase in one.phrases):
            yield one
