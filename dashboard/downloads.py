"""Files to download: a build with its manifest, and tables. They are created only when a user requests them."""

import io
import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import streamlit as st

from dashboard.ranked_place import Ranked
from sweeps.errors import EdgeSweepError
from sweeps.manifest import FILE_NAME
from sweeps.ranking.exported_build import checked, export_candidate
from sweeps.ranking.values import Candidate, DeviceRanking
from sweeps.report.table_files import Table, csv_text, parquet_bytes
from sweeps.results import to_frame
from sweeps.workspace import Workspace


def problem(root: Path, build_key: str) -> EdgeSweepError | None:
    """Return the error by which a build cannot be downloaded; `None` if its file is intact. The check is cached until
    the build's files change."""
    folder = Workspace(root).artifact(build_key)
    try:
        states = tuple(
            (file.name, (status := file.stat()).st_mtime_ns, status.st_size) for file in sorted(folder.iterdir())
        )
    except OSError:
        states = ()
    if not any(name == FILE_NAME for name, _, _ in states):
        return EdgeSweepError("its file is not in this workspace", "run the sweep again to build it")
    return _problem(str(folder), states)


@st.cache_resource(max_entries=256, show_spinner=False)
def _problem(folder: str, states: tuple[tuple[str, int, int], ...]) -> EdgeSweepError | None:
    try:
        checked(Path(folder), "this build")
    except EdgeSweepError as error:
        return error
    return None


def build_zip(root: Path, ranked: Ranked, device: DeviceRanking, candidate: Candidate) -> bytes:
    """Return a zip file with what `edgesweep export` writes: the file to ship, and `manifest.json` with the expected
    figures.

    Raises `EdgeSweepError` if the file is missing or damaged.
    """
    only = replace(device, ranking=(candidate,), checked=())
    with TemporaryDirectory(prefix="edgesweep-") as folder:
        export_candidate(
            replace(ranked.ranking, devices=(only,)),
            to_frame(ranked.rows),
            Workspace(root),
            model=None,
            job=candidate.name,
            output=Path(folder),
        )
        packed = io.BytesIO()
        # The files are not compressed: weights hardly become smaller, and compression takes long.
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
            for file in sorted(Path(folder).iterdir()):
                archive.write(file, file.name)
    return packed.getvalue()


def offer_tables(make: Callable[[], Table], name: str, key: str) -> None:
    """Draw two buttons that download a table as CSV and as Parquet."""
    for kind, data in (
        ("CSV", lambda: csv_text(make()).encode("utf-8-sig")),
        ("Parquet", lambda: parquet_bytes(make())),
    ):
        st.download_button(
            kind,
            data,
            file_name=f"{file_name(name)}.{kind.lower()}",
            on_click="ignore",
            key=f"{key}-{kind}",
            icon=":material/table:",
        )


def file_name(*parts: str) -> str:
    """Return a file name from untrusted text: letters, digits, dots and dashes, at most 100 characters."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(parts)).strip("-.")[:100] or "edgesweep"
