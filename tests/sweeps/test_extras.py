"""The line that installs what is missing names the right extra, and works where EdgeSweep is in no index."""

import json
import shlex
from importlib import metadata
from types import SimpleNamespace

import pytest

from sweeps.extras import extra_of, install_line


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("vl_convert", "dashboard"),
        ("jinja2", "dashboard"),
        ("authlib", "dashboard"),
        ("torch", "workers"),
        ("sklearn", "workers"),
        ("onnx", "runtimes"),
        ("onnxruntime", "runtimes"),
    ],
)
def test_a_module_belongs_to_the_extra_that_installs_it(module: str, extra: str) -> None:
    assert extra_of(module) == extra


@pytest.mark.parametrize(
    ("url", "arguments"),
    [
        (None, ["edgesweep[workers,runtimes]"]),
        (
            {"url": "file:///it's/edgesweep-0.1.0.whl", "archive_info": {}},
            ["edgesweep[workers,runtimes] @ file:///it's/edgesweep-0.1.0.whl"],
        ),
        ({"url": "file:///my%20code", "dir_info": {}}, ["/my code[workers,runtimes]"]),
        (
            {"url": "file:///my%20code", "dir_info": {"editable": True}},
            ["--editable", "/my code[workers,runtimes]"],
        ),
    ],
)
def test_the_line_takes_edgesweep_from_where_it_came(
    monkeypatch: pytest.MonkeyPatch, url: dict[str, object] | None, arguments: list[str]
) -> None:
    text = None if url is None else json.dumps(url)
    monkeypatch.setattr(metadata, "distribution", lambda _: SimpleNamespace(read_text=lambda _: text))
    assert shlex.split(install_line("workers", "runtimes")) == ["pip", "install", *arguments]
