"""Finds the run of one job in MLflow, for a link to it."""

import re

from sweeps.store.client import active_runs, connect, published_s, translated
from sweeps.store.run_content import JOB_KEY

_JOB_KEY = re.compile(r"(skipped-)?[0-9a-f]{1,64}")


def find_run(tracking_uri: str, sweep: str, job_key: str) -> tuple[str, str] | None:
    """The ids of the experiment and of the run of one job, the one that was written last; `None` if MLflow has none.
    Raises `StoreError`."""
    if _JOB_KEY.fullmatch(job_key) is None:  # the key becomes a part of a query
        return None
    with translated(tracking_uri):
        client = connect(tracking_uri, make=False)
        experiment = client.get_experiment_by_name(sweep)
        if experiment is None:
            return None
        runs = active_runs(client, [experiment.experiment_id], f"tags.`{JOB_KEY}` = '{job_key}'")
    newest = max(runs, key=published_s, default=None)
    return None if newest is None else (str(experiment.experiment_id), str(newest.info.run_id))
