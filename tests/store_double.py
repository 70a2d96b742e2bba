"""A double of MLflow's client: as much as the store asks for, on a plain sqlite file.

It passes the tests of tests/sweeps/store/test_mlflow.py that MLflow passes. Tests of commands take it where MLflow is
not their subject. It refuses methods and filters that it does not know, and has no limit on the size of a batch.
"""

import json
import re
import shutil
import sqlite3
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import pytest
from mlflow.entities import Metric, Param, RunTag, ViewType
from mlflow.exceptions import MlflowException

from sweeps.store import client as store_client
from sweeps.store.uri import sqlite_path

LONGEST = {"params": 6000, "tags": 8000}
_VIEWS = {ViewType.ACTIVE_ONLY: ("active",), ViewType.DELETED_ONLY: ("deleted",), ViewType.ALL: ("active", "deleted")}


@contextmanager
def doubled() -> Iterator[None]:
    """Within the block the store's client is the double, for databases that the store makes in the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mlflow.MlflowClient", DoubleClient)
        patch.setattr(store_client, "_make_database", make)
        patch.setattr(store_client, "check_schema", lambda *_: None)
        yield


def make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(_open(path)) as db, db:
        db.execute("CREATE TABLE experiments (number INTEGER PRIMARY KEY, document TEXT NOT NULL)")
        db.execute("CREATE TABLE runs (number INTEGER PRIMARY KEY, document TEXT NOT NULL)")


def _open(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path)
    db.execute("PRAGMA synchronous = OFF")
    return db


class Page(list[SimpleNamespace]):
    token: str | None = None


class DoubleClient:
    """Methods have MLflow's names, arguments and answers."""

    def __init__(self, tracking_uri: str) -> None:
        self._path = sqlite_path(tracking_uri)

    # Experiments

    def create_experiment(self, name: str, artifact_location: str = "", tags: dict[str, str] | None = None) -> str:
        if self.get_experiment_by_name(name) is not None:
            raise MlflowException(f"there is an experiment {name!r}")
        made = {"name": name, "lifecycle_stage": "active", "tags": tags or {}, "location": artifact_location}
        return str(self._insert("experiments", made))

    def search_experiments(self, max_results: int = 1000, page_token: str | None = None) -> Page:
        found = [_experiment(*row) for row in self._rows("experiments")]
        active = [experiment for experiment in found if experiment.lifecycle_stage == "active"]
        return _page(active, max_results, page_token)

    def get_experiment_by_name(self, name: str) -> SimpleNamespace | None:
        found = (_experiment(number, made) for number, made in self._rows("experiments") if made["name"] == name)
        return next(found, None)

    def delete_experiment(self, experiment_id: str) -> None:
        self._set_stage(experiment_id, "deleted")

    def restore_experiment(self, experiment_id: str) -> None:
        self._set_stage(experiment_id, "active")

    def _set_stage(self, experiment_id: str, stage: str) -> None:
        """Of the experiment and, as MLflow does it, of all its runs."""
        with self._changed("experiments", int(experiment_id)) as experiment:
            experiment["lifecycle_stage"] = stage
        for number, run in self._rows("runs"):
            if run["experiment_id"] == experiment_id:
                self._update("runs", number, run | {"lifecycle_stage": stage})

    # Runs

    def create_run(self, experiment_id: str, run_name: str = "", tags: dict[str, str] | None = None) -> SimpleNamespace:
        made = {"run_id": uuid.uuid4().hex, "experiment_id": experiment_id, "run_name": run_name, "status": "RUNNING"}
        made |= {"start_time": int(time.time() * 1000), "lifecycle_stage": "active"}
        made |= {"tags": {}, "params": {}, "history": []}
        _put(made, "tags", {"mlflow.runName": run_name, **(tags or {})})
        self._insert("runs", made)
        return _run(made)

    def search_runs(
        self,
        experiment_ids: list[str],
        filter_string: str = "",
        run_view_type: int = ViewType.ACTIVE_ONLY,
        max_results: int = 1000,
        order_by: list[str] | None = None,
        page_token: str | None = None,
    ) -> Page:
        if order_by not in (None, ["attributes.start_time ASC"]):
            raise MlflowException(f"the double does not order by {order_by}")
        found = [run for _, run in self._rows("runs") if run["experiment_id"] in experiment_ids]
        found = [run for run in found if run["lifecycle_stage"] in _VIEWS[run_view_type]]
        if filter_string:
            asked = re.fullmatch(r"tags\.[`\"]([^`\"]+)[`\"] = '([^']*)'", filter_string)
            if asked is None:
                raise MlflowException(f"the double does not know the filter {filter_string}")
            found = [run for run in found if run["tags"].get(asked[1]) == asked[2]]
        return _page([_run(run) for run in (found if order_by else reversed(found))], max_results, page_token)

    def get_run(self, run_id: str) -> SimpleNamespace:
        return _run(self._named(run_id)[1])

    def log_batch(
        self, run_id: str, metrics: Iterable[Metric] = (), params: Iterable[Param] = (), tags: Iterable[RunTag] = ()
    ) -> None:
        with self._run_changed(run_id) as run:
            run["history"] += [[metric.key, metric.step, metric.value] for metric in metrics]
            _put(run, "params", {param.key: param.value for param in params})
            _put(run, "tags", {tag.key: tag.value for tag in tags})

    def log_param(self, run_id: str, key: str, value: object) -> None:
        self.log_batch(run_id, params=[Param(key, str(value))])

    def log_metric(self, run_id: str, key: str, value: float) -> None:
        self.log_batch(run_id, metrics=[Metric(key, value, 0, 0)])

    def set_tag(self, run_id: str, key: str, value: str) -> None:
        self.log_batch(run_id, tags=[RunTag(key, value)])

    def get_metric_history(self, run_id: str, key: str) -> list[SimpleNamespace]:
        history = self._named(run_id)[1]["history"]
        return [SimpleNamespace(step=step, value=value) for name, step, value in history if name == key]

    def update_run(self, run_id: str, status: str) -> None:
        with self._run_changed(run_id) as run:
            run["status"] = status

    def set_terminated(self, run_id: str, status: str = "FINISHED") -> None:
        self.update_run(run_id, status)

    def delete_run(self, run_id: str) -> None:
        with self._run_changed(run_id) as run:
            run["lifecycle_stage"] = "deleted"

    def log_artifacts(self, run_id: str, local_dir: str) -> None:
        shutil.copytree(local_dir, self._artifacts(run_id), dirs_exist_ok=True)

    def download_artifacts(self, run_id: str, path: str, dst_path: str) -> str:
        source, target = self._artifacts(run_id) / path, Path(dst_path) / path
        if source.is_dir():
            return str(shutil.copytree(source, target, dirs_exist_ok=True))
        return str(shutil.copy(source, target))

    def _artifacts(self, run_id: str) -> Path:
        experiments = {str(number): made for number, made in self._rows("experiments")}
        location = experiments[self._named(run_id)[1]["experiment_id"]]["location"]
        return Path(unquote(urlsplit(location).path)) / run_id / "artifacts"

    # The file

    def _rows(self, table: str) -> list[tuple[int, dict]]:
        with closing(_open(self._path)) as db:
            rows = db.execute(f"SELECT number, document FROM {table} ORDER BY number").fetchall()
        return [(number, json.loads(text)) for number, text in rows]

    def _insert(self, table: str, made: dict) -> int | None:
        with closing(_open(self._path)) as db, db:
            return db.execute(f"INSERT INTO {table} (document) VALUES (?)", [json.dumps(made)]).lastrowid

    def _update(self, table: str, number: int, made: dict) -> None:
        with closing(_open(self._path)) as db, db:
            db.execute(f"UPDATE {table} SET document = ? WHERE number = ?", [json.dumps(made), number])

    def _named(self, run_id: str) -> tuple[int, dict]:
        found = next((row for row in self._rows("runs") if row[1]["run_id"] == run_id), None)
        if found is None:
            raise MlflowException(f"there is no run {run_id}")
        return found

    @contextmanager
    def _changed(self, table: str, number: int) -> Iterator[dict]:
        made = dict(self._rows(table))[number]
        yield made
        self._update(table, number, made)

    @contextmanager
    def _run_changed(self, run_id: str) -> Iterator[dict]:
        with self._changed("runs", self._named(run_id)[0]) as run:
            yield run


def _put(run: dict, kind: str, values: dict[str, str]) -> None:
    for key, value in values.items():
        if len(key) > 250 or len(value) > LONGEST[kind]:
            raise MlflowException(f"{kind}: {key:.250} is too long")
        if kind == "params" and run[kind].get(key, value) != value:
            raise MlflowException(f"{key} has another value, and parameters keep theirs")
        run[kind][key] = value


def _experiment(number: int, made: dict) -> SimpleNamespace:
    kept = {name: made[name] for name in ("name", "lifecycle_stage", "tags")}
    return SimpleNamespace(experiment_id=str(number), **kept)


def _run(made: dict) -> SimpleNamespace:
    names = ("run_id", "experiment_id", "run_name", "status", "start_time", "lifecycle_stage")
    latest = {name: value for name, _, value in sorted(made["history"], key=lambda point: point[1])}
    return SimpleNamespace(
        info=SimpleNamespace(**{name: made[name] for name in names}),
        data=SimpleNamespace(tags=made["tags"], params=made["params"], metrics=latest),
    )


def _page(found: list[SimpleNamespace], size: int, token: str | None) -> Page:
    start = int(token or 0)
    page = Page(found[start : start + size])
    page.token = str(start + size) if start + size < len(found) else None
    return page
