import importlib
import subprocess
import sys
from dataclasses import replace
from importlib import metadata

import pytest

from sweeps.errors import EdgeSweepError
from sweeps.extras import install_line
from sweeps.spec import built_in, catalog
from workers.runtimes import registry


def test_every_name_in_the_table_is_a_class_that_knows_its_name() -> None:
    for name, entry in catalog.runtimes().items():
        module, _, attribute = entry.target.partition(":")
        assert getattr(importlib.import_module(module), attribute).name == name


def test_a_near_miss_is_told_the_right_name() -> None:
    with pytest.raises(EdgeSweepError, match="no runtime 'torchscrip'") as caught:
        registry.get("torchscrip")
    assert caught.value.next_step == "did you mean torchscript?"


def test_a_name_like_none_is_told_all_names() -> None:
    with pytest.raises(EdgeSweepError) as caught:
        registry.get("zzz")
    assert caught.value.next_step == "there are: eager, executorch, onnxruntime, torchscript"


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = replace(built_in.EAGER, target="library_that_nobody_has:Other")
    monkeypatch.setitem(catalog.runtimes(), "eager", lacking)
    with pytest.raises(EdgeSweepError, match="library_that_nobody_has") as caught:
        registry.get("eager")
    assert caught.value.next_step == install_line("workers")


def test_a_runtime_of_an_extra_names_it_and_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its class needs a library, and where only its versions do."""
    expected = f"{install_line('workers', 'runtimes')} (390 MB)"
    monkeypatch.setattr(metadata, "version", lacking_onnxscript)
    with pytest.raises(EdgeSweepError, match="the runtime onnxruntime needs onnxscript, which") as caught:
        registry.get("onnxruntime").versions()
    assert caught.value.next_step == expected
    lacking = replace(built_in.ONNXRUNTIME, target="library_that_nobody_has:Other")
    monkeypatch.setitem(catalog.runtimes(), "onnxruntime", lacking)
    with pytest.raises(EdgeSweepError, match="library_that_nobody_has") as caught:
        registry.get("onnxruntime")
    assert caught.value.next_step == expected


def lacking_onnxscript(package: str) -> str:
    if package == "onnxscript":
        raise metadata.PackageNotFoundError(package)
    return "1"


@pytest.mark.parametrize("target", ["library_that_nobody_has:Other", "workers.runtimes.registry:nothing", "sys:exit"])
def test_a_runtime_of_another_package_that_cannot_be_loaded_is_named_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.setitem(catalog.runtimes(), "other", replace(built_in.EAGER, name="other", target=target))
    with pytest.raises(EdgeSweepError, match="the runtime other cannot be loaded: ") as caught:
        registry.get("other")
    assert "package" in caught.value.next_step


def test_every_runtime_that_is_compiled_for_phones_says_how() -> None:
    compiled = [name for name, entry in catalog.runtimes().items() if entry.for_phones]
    assert compiled == ["torchscript", "onnxruntime", "executorch"]
    for name in compiled:
        module = registry.for_phones(name)
        assert callable(module.recipe)
        assert module.GET


def test_planning_with_a_runtime_imports_no_torch() -> None:
    program = (
        "import sys\n"
        "from workers.runtimes import registry\n"
        "runtime = registry.get('torchscript')\n"
        "runtime.versions(), runtime.runner()\n"
        "print('torch' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "False"
