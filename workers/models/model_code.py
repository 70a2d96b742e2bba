"""The code of a model: found, hashed and sent to other machines without running it; run only to construct the model."""

import ast
import difflib
import hashlib
import importlib
import importlib.util
import re
import sys
import sysconfig
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sweeps.device_facts import canonical_key
from sweeps.errors import ModelError, in_one_line
from sweeps.spec.model_inputs import TAKEN_MODULES
from sweeps.temporary import folder_of_process
from workers.models.uncompiled import uncompiled

if TYPE_CHECKING:
    import torch

_REGISTERED = re.compile(r"^@register_model\(\)\n(?:[@ )].*\n)*def (\w+)\(", re.MULTILINE)
_MISSING = re.compile(r"missing \d+ required .*?'(\w+)'")
_PACKAGES = TAKEN_MODULES - sys.stdlib_module_names

_lock = threading.RLock()
_modules: dict[str, dict[str, ModuleType]] = {}
_folders: dict[str, Path] = {}


@dataclass(frozen=True, slots=True)
class OwnCode:
    """The files of a `module:function`: its module, and the modules that it imports from the same folder."""

    sha256: str
    files: Mapping[str, bytes]
    """The files' contents by path relative to that folder. Empty for installed packages: each machine imports its
    own."""


RECORDED_IDS = {
    "workers.models.demo_training": "372cb9fa95508a98ea26177855d95cfc6b60eb075933eb72d3b4de7094770ba1",
    "workers.small_vit": "bbd5581b7f897282c004ee33f4873094803071e246d8ecca36df42b6bb667be4",
    "workers.sentinel": "0e99eaf3e4a426b8c74796401cdafc5da25dad161f66fca11ca9263691b03c77",
}
"""Ids of our own modules, used in build and job keys, which stay the same when only imports change.

tests/workers/models/test_model_code.py compares the code of these modules with a recorded hash. After a change of the
code, write a new id here: jobs that use the module are then measured again.
"""


def own_code(source: str, roots: Sequence[Path]) -> OwnCode:
    """Find the files of `module:function` under `roots`, the current folder or `sys.path`, without running any.

    Raises `ModelError` if the module does not exist, or if one of the files is not valid Python.
    """
    module, _, function = source.partition(":")
    names = module.split(".")
    if not all(name.isidentifier() for name in (*names, function)):
        raise ModelError(f"{source} is not module:function", "write for instance my_models.nets:small_net")
    folders = _folders_of(roots)
    for root in folders:
        if _file(root, names) is not None:
            return _collected(root, names)
    raise ModelError(
        f"there is no module {module} for the model {source}",
        f"start edgesweep in the folder that holds {names[0]}, or put that folder on PYTHONPATH "
        f"(looked in {', '.join(str(folder) for folder in folders[:3])} and {len(folders[3:])} more)",
    )


def check_not_hidden(source: str, code: OwnCode, roots: Sequence[Path]) -> None:
    """Raises `ModelError` if a file beside the model's code has the name of a package that this code imports.

    Python would import that file instead of the package, which is not what the model's author tried.
    """
    names = source.partition(":")[0].split(".")
    root = next((folder for folder in _folders_of(roots) if _file(folder, names) is not None), None)
    if root is None or not code.files:
        return
    imported = {name[0] for path, content in code.files.items() for name in _imported(content, Path(path), ()) if name}
    for name in sorted(imported & _PACKAGES):
        beside, spec = _file(root, [name]), importlib.util.find_spec(name)
        if beside is not None and (spec is None or Path(spec.origin or "") != beside):
            raise ModelError(
                f"{beside} has the name of the package {name}, which {source} imports",
                f"rename {beside.name if beside.name != '__init__.py' else beside.parent.name}",
            )


def construct(source: str, arguments: Mapping[str, Any], files: Mapping[str, bytes]) -> "torch.nn.Module":
    """Call torchvision's or the user's constructor; no weights are downloaded. Raises `ModelError`."""
    import torch

    with uncompiled():
        model = _own(source, arguments, files) if ":" in source else _torchvision(source, arguments)
    if not isinstance(model, torch.nn.Module):
        raise ModelError(
            f"{source} returned {type(model).__name__}, not a torch.nn.Module", "return the model from the function"
        )
    return model


def check_torchvision_name(name: str) -> None:
    """Raises `ModelError` with similar names if torchvision has no such model. Imports nothing: torchvision takes
    seconds."""
    names = _torchvision_names()
    if names and name not in names:
        close = difflib.get_close_matches(name, names, n=3)
        raise ModelError(
            f"torchvision has no classification model {name}",
            f"did you mean {' or '.join(close)}?" if close else "write module:function for a model of your own",
        )


@cache
def _torchvision_names() -> tuple[str, ...]:
    """Return the names of torchvision's classification models, read from its source; empty if it is not installed."""
    spec = importlib.util.find_spec("torchvision")
    folders = [] if spec is None else [Path(place) / "models" for place in spec.submodule_search_locations or ()]
    sources = [path.read_text(encoding="utf-8") for folder in folders for path in sorted(folder.glob("*.py"))]
    return tuple(name for source in sources for name in _REGISTERED.findall(source))


def _torchvision(name: str, arguments: Mapping[str, Any]) -> Any:
    import torchvision

    check_torchvision_name(name)
    if "weights" in arguments or "weights_backbone" in arguments:
        raise ModelError(f"{name} has weights among its arguments", "give them as weights: in the sweep file")
    defaults: dict[str, Any] = {"weights": None}
    if name in ("googlenet", "inception_v3"):
        # The auxiliary heads are used only in training, and their random initialisation takes half a minute.
        defaults |= {"aux_logits": False, "init_weights": False}
    try:
        return torchvision.models.get_model(name, **{**defaults, **arguments})
    except Exception as error:
        argument_text = ", ".join(f"{key}: {value}" for key, value in arguments.items()) or "no arguments"
        raise ModelError(
            f"torchvision's {name} does not take {argument_text}: {error}", "correct the model's arguments"
        ) from error


def _own(source: str, arguments: Mapping[str, Any], files: Mapping[str, bytes]) -> Any:
    module, _, function = source.partition(":")
    with _lock, _importable(files) as folder:
        try:
            imported = importlib.import_module(module)
            build = getattr(imported, function, None)
            if build is None:
                close = difflib.get_close_matches(function, dir(imported), n=1)
                raise ModelError(
                    f"{module} has no function {function}",
                    f"did you mean {close[0]}?" if close else f"define {function} in {module}",
                )
            return build(**arguments)
        except ModelError:
            raise
        except (Exception, SystemExit) as error:
            raise ModelError(
                f"{source} failed{_place(error, folder)} with {in_one_line(error)}", _step(error, function)
            ) from error


def _step(error: BaseException, function: str) -> str:
    if isinstance(error, ModuleNotFoundError):
        return "install it beside EdgeSweep, or correct the import"
    trace = error.__traceback__
    if isinstance(error, TypeError) and trace is not None and trace.tb_next is None:  # the call itself
        missing = _MISSING.search(str(error))
        name = missing[1] if missing else "NAME"
        return (
            f"give {function}() the arguments that it takes: arguments: {{{name}: VALUE}} in the sweep file, "
            f"--argument {name}=VALUE of edgesweep init"
        )
    return f"make {function}() work in Python first"


def _folders_of(roots: Sequence[Path]) -> list[Path]:
    return list(dict.fromkeys([*roots, Path.cwd(), *(Path(entry or ".").absolute() for entry in sys.path)]))


def _file(root: Path, names: Sequence[str]) -> Path | None:
    """Return the file of a module by its dotted name under `root`; `None` if there is none (or only a folder)."""
    base = root.joinpath(*names)
    for path in (base / "__init__.py", base.with_name(base.name + ".py")):
        if path.is_file():
            return path
    return None


def _collected(root: Path, names: Sequence[str]) -> OwnCode:
    installed = names[0] in TAKEN_MODULES or root.resolve() in _installed_folders()
    if installed and (recorded := RECORDED_IDS.get(".".join(names))):
        return OwnCode(recorded, {})
    contents: dict[str, bytes] = {}
    waiting = [tuple(names)]
    queued = set(waiting)
    while waiting:
        current = waiting.pop()
        path = _file(root, current)
        if path is None:
            continue
        contents[path.relative_to(root).as_posix()] = content = path.read_bytes()
        package = current if path.name == "__init__.py" else current[:-1]
        parents = [current[:i] for i in range(1, len(current))]
        for name in (*parents, *_imported(content, path, package)):
            local = name[0] == names[0] if installed else name[0] not in TAKEN_MODULES
            if local and name not in queued:
                queued.add(name)
                waiting.append(name)
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    return OwnCode(canonical_key(digests), {} if installed else dict(sorted(contents.items())))


def _imported(content: bytes, path: Path, package: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield dotted names that may be modules, from all import statements of the file, also those inside functions."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) else ""
        words = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ModelError(f"{path}{line} is not valid Python: {words}", "correct the file") from error
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            base = (*start, *(node.module.split(".") if node.module else ()))
            names = [base, *((*base, alias.name) for alias in node.names if alias.name != "*")]
        else:
            continue
        for name in names:
            yield from (name[:i] for i in range(1, len(name) + 1))


def _installed_folders() -> set[Path]:
    return {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")}


@contextmanager
def _importable(files: Mapping[str, bytes]) -> Iterator[Path | None]:
    """Let the modules in `files` be imported before all others in the block; yields their folder, `None` without
    files."""
    if not files:
        yield None
        return
    own = {Path(name).parts[0].removesuffix(".py") for name in files}
    key = canonical_key({name: hashlib.sha256(content).hexdigest() for name, content in files.items()})
    folder = _folder_of(key, files)
    # Two models may both have a `model.py`: `sys.modules` holds the one that was used last. It stays there, because
    # `torch.jit.script` and `inspect` read the source of its classes.
    for name in _loaded(own):
        del sys.modules[name]
    sys.modules.update(_modules.get(key, {}))
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield folder
    finally:
        _modules[key] = {name: sys.modules[name] for name in _loaded(own)}
        sys.path.remove(str(folder))


def _loaded(own: set[str]) -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] in own]


def _folder_of(key: str, files: Mapping[str, bytes]) -> Path:
    """Return a folder with the files, written once. It stays until the process ends: `torch.jit.script` reads the
    source."""
    if key not in _folders:
        folder = folder_of_process()
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        _folders[key] = folder
    return _folders[key]


def _place(error: BaseException, folder: Path | None) -> str:
    """Return the innermost line of the traceback in the user's own files, as in ` at nets.py:12`; empty if there is
    none."""
    place = ""
    trace = error.__traceback__
    while trace is not None and folder is not None:
        path = Path(trace.tb_frame.f_code.co_filename)
        if path.is_relative_to(folder):
            place = f" at {path.relative_to(folder)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
