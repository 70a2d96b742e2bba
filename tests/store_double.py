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
from mlflow.entities import DatasetInput, LoggedModelInput, Metric, Param, RunTag, ViewType
from mlflow.exceptions import MlflowException

from sweeps.store import client as store_client
from sweeps.store.uri import sqlite_path

LONGEST = {"params": 6000, "tags": 8000}
LONGEST_DIGEST = 36
_ORDERS = {
    ("attributes.start_time ASC",): lambda runs: sorted(runs, key=lambda run: run["start_time"]),
    ("attributes.end_time DESC",): lambda runs: sorted(runs, key=lambda run: -(run["end_time"] or 0)),
}
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
        db.execute("CREATE TABLE models (number INTEGER PRIMARY KEY, document TEXT NOT NULL)")


def _open(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path)
    db.execute("PRAGMA synchronous = OFF")
    return db


class Page(list[SimpleNamespace]):
    token: str | None = None


class DoubleClient:
    """Methods have MLflow's names, arguments and answers."""

    def __init__(self, tracking_uri: str) -> None:
        self.tracking_uri = tracking_uri
        self._path = sqlite_path(tracking_uri)

    # Experiments

    def create_experiment(self, name: str, artifact_location: str = "", tags: dict[str, str] | None = None) -> str:
        if self.get_experiment_by_name(name) is not None:
            raise MlflowException(f"there is an experiment {name!r}")
        document = {"name": name, "lifecycle_stage": "active", "tags": tags or {}, "location": artifact_location}
        return str(self._insert("experiments", document))

    def search_experiments(self, max_results: int = 1000, page_token: str | None = None) -> Page:
        experiments = [_experiment(*row) for row in self._rows("experiments")]
        active = [experiment for experiment in experiments if experiment.lifecycle_stage == "active"]
        return _page(active, max_results, page_token)

    def get_experiment_by_name(self, name: str) -> SimpleNamespace | None:
        matches = (
            _experiment(number, document) for number, document in self._rows("experiments") if document["name"] == name
        )
        return next(matches, None)

    def rename_experiment(self, experiment_id: str, new_name: str) -> None:
        with self._changed("experiments", int(experiment_id)) as experiment:
            experiment["name"] = new_name

    def set_experiment_tag(self, experiment_id: str, key: str, value: str) -> None:
        with self._changed("experiments", int(experiment_id)) as experiment:
            experiment["tags"][key] = value

    def delete_experiment(self, experiment_id: str) -> None:
        self._set_stage(experiment_id, "deleted")

    def restore_experiment(self, experiment_id: str) -> None:
        self._set_stage(experiment_id, "active")

    def _set_stage(self, experiment_id: str, stage: str) -> None:
        """Set the stage of the experiment and, as MLflow does it, of all its runs."""
        with self._changed("experiments", int(experiment_id)) as experiment:
            experiment["lifecycle_stage"] = stage
        for number, run in self._rows("runs"):
            if run["experiment_id"] == experiment_id:
                self._update("runs", number, run | {"lifecycle_stage": stage})

    # Runs

    def create_run(
        self,
        experiment_id: str,
        start_time: int | None = None,
        tags: dict[str, str] | None = None,
        run_name: str = "",
    ) -> SimpleNamespace:
        run_id = uuid.uuid4().hex
        run = {"run_id": run_id, "experiment_id": experiment_id, "run_name": run_name, "status": "RUNNING"}
        run |= {"start_time": start_time or int(time.time() * 1000), "end_time": None, "lifecycle_stage": "active"}
        run |= {"tags": {}, "params": {}, "history": [], "datasets": [], "models": []}
        run |= {"artifact_uri": f"{self._location(experiment_id)}/{run_id}/artifacts"}
        _put(run, "tags", {"mlflow.runName": run_name, **(tags or {})})
        self._insert("runs", run)
        return _run(run)

    def search_runs(
        self,
        experiment_ids: list[str],
        filter_string: str = "",
        run_view_type: int = ViewType.ACTIVE_ONLY,
        max_results: int = 1000,
        order_by: list[str] | None = None,
        page_token: str | None = None,
    ) -> Page:
        if order_by and tuple(order_by) not in _ORDERS:
            raise MlflowException(f"the double does not order by {order_by}")
        runs = [run for _, run in self._rows("runs") if run["experiment_id"] in experiment_ids]
        runs = [run for run in runs if run["lifecycle_stage"] in _VIEWS[run_view_type]]
        if filter_string:
            condition = re.fullmatch(r"tags\.[`\"]([^`\"]+)[`\"] = '([^']*)'", filter_string)
            if condition is None:
                raise MlflowException(f"the double does not know the filter {filter_string}")
            runs = [run for run in runs if run["tags"].get(condition[1]) == condition[2]]
        ordered = _ORDERS[tuple(order_by)](runs) if order_by else reversed(runs)
        return _page([_run(run) for run in ordered], max_results, page_token)

    def get_run(self, run_id: str) -> SimpleNamespace:
        return _run(self._named(run_id)[1])

    def log_batch(
        self, run_id: str, metrics: Iterable[Metric] = (), params: Iterable[Param] = (), tags: Iterable[RunTag] = ()
    ) -> None:
        with self._run_changed(run_id) as run:
            run["history"] += [[metric.key, metric.step, metric.value] for metric in metrics]
            _put(run, "params", {param.key: param.value for param in params})
            _put(run, "tags", {tag.key: tag.value for tag in tags})

    def log_inputs(
        self, run_id: str, datasets: list[DatasetInput] | None = None, models: list[LoggedModelInput] | None = None
    ) -> None:
        with self._run_changed(run_id) as run:
            for entry in datasets or []:
                if len(entry.dataset.digest) > LONGEST_DIGEST:
                    raise MlflowException(f"the digest {entry.dataset.digest} is too long")
                run["datasets"].append(entry.dataset.name)
            run["models"] += [model.model_id for model in models or []]

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

    def set_terminated(self, run_id: str, status: str = "FINISHED", end_time: int | None = None) -> None:
        with self._run_changed(run_id) as run:
            run |= {"status": status, "end_time": end_time or int(time.time() * 1000)}

    def delete_run(self, run_id: str) -> None:
        with self._run_changed(run_id) as run:
            run["lifecycle_stage"] = "deleted"

    def download_artifacts(self, run_id: str, path: str, dst_path: str) -> str:
        source, target = self._artifacts(run_id) / path, Path(dst_path) / path
        if source.is_dir():
            return str(shutil.copytree(source, target, dirs_exist_ok=True))
        return str(shutil.copy(source, target))

    def _artifacts(self, run_id: str) -> Path:
        return Path(unquote(urlsplit(self._named(run_id)[1]["artifact_uri"]).path))

    def _location(self, experiment_id: str) -> str:
        return str(dict(self._rows("experiments"))[int(experiment_id)]["location"])

    # Logged models

    def create_logged_model(
        self,
        experiment_id: str,
        name: str,
        source_run_id: str,
        tags: dict[str, str],
        params: dict[str, str],
        model_type: str,
    ) -> SimpleNamespace:
        if not name or any(mark in name for mark in "/:.%\"'"):
            raise MlflowException(f"{name!r} cannot be the name of a logged model")
        model_id = f"m-{uuid.uuid4().hex}"
        model = {"model_id": model_id, "experiment_id": experiment_id, "name": name, "status": "PENDING"}
        model |= {"tags": tags, "params": params, "model_type": model_type, "source_run_id": source_run_id}
        model |= {"artifact_location": f"{self._location(experiment_id)}/models/{model_id}/artifacts"}
        self._insert("models", model)
        return SimpleNamespace(**model)

    def finalize_logged_model(self, model_id: str, status: str) -> None:
        number = next(number for number, model in self._rows("models") if model["model_id"] == model_id)
        with self._changed("models", number) as model:
            model["status"] = status

    def search_logged_models(
        self, experiment_ids: list[str], max_results: int = 100, page_token: str | None = None
    ) -> Page:
        models = [
            SimpleNamespace(**model) for _, model in self._rows("models") if model["experiment_id"] in experiment_ids
        ]
        return _page(models, max_results, page_token)

    # The file

    def _rows(self, table: str) -> list[tuple[int, dict]]:
        with closing(_open(self._path)) as db:
            rows = db.execute(f"SELECT number, document FROM {table} ORDER BY number").fetchall()
        return [(number, json.loads(text)) for number, text in rows]

    def _insert(self, table: str, document: dict) -> int | None:
        with closing(_open(self._path)) as db, db:
            return db.execute(f"INSERT INTO {table} (document) VALUES (?)", [json.dumps(document)]).lastrowid

    def _update(self, table: str, number: int, document: dict) -> None:
        with closing(_open(self._path)) as db, db:
            db.execute(f"UPDATE {table} SET document = ? WHERE number = ?", [json.dumps(document), number])

    def _named(self, run_id: str) -> tuple[int, dict]:
        row = next((row for row in self._rows("runs") if row[1]["run_id"] == run_id), None)
        if row is None:
            raise MlflowException(f"there is no run {run_id}")
        return row

    @contextmanager
    def _changed(self, table: str, number: int) -> Iterator[dict]:
        document = dict(self._rows(table))[number]
        yield document
        self._update(table, number, document)

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


def _experiment(number: int, document: dict) -> SimpleNamespace:
    fields = {name: document[name] for name in ("name", "lifecycle_stage", "tags")}
    return SimpleNamespace(experiment_id=str(number), artifact_location=document["location"], **fields)


def _run(document: dict) -> SimpleNamespace:
    names = ("run_id", "experiment_id", "run_name", "status", "start_time", "end_time", "lifecycle_stage")
    latest = {name: value for name, _, value in sorted(document["history"], key=lambda point: point[1])}
    return SimpleNamespace(
        info=SimpleNamespace(artifact_uri=document["artifact_uri"], **{name: document[name] for name in names}),
        data=SimpleNamespace(tags=document["tags"], params=document["params"], metrics=latest),
    )


def _page(items: list[SimpleNamespace], size: int, token: str | None) -> Page:
    start = int(token or 0)
    page = Page(items[start : start + size])
    page.token = str(start + size) if start + size < len(items) else None
    return page
