"""MLflow's URI: whether it answers, whether its database has the right schema, and how to print it without secrets."""

import base64
import os
import re
import socket
import sqlite3
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sweeps.errors import StoreError
from sweeps.sqlite_file import connect

PROBE_TIMEOUT_S = 4.0
"""Detects a server that is down within seconds; MLflow itself would retry for minutes."""

_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
_SECRETS = ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_SECRET_NAME = re.compile(r"pass|pwd|token|secret|key|auth|cred|sig", re.IGNORECASE)
"""The names of those parameters of an address whose values nobody else may read."""
_PARAMETER = re.compile(r"(?P<before>[?&;\s'\"]|^)(?P<name>[\w.%+-]{1,100})=(?P<value>'[^']*'|\"[^\"]*\"|[^&;\s'\"]*)")
_AUTHORIZATION = re.compile(
    r"\b(authorization\W{1,5}(?:\w{3,20} +)?|(?:basic|bearer|negotiate) +(?=\S*[0-9=+/]))[\w.~+/=-]{4,}", re.IGNORECASE
)
_SHORT = 4
"""A secret with fewer characters stands in too many words: it is hidden only where it is one itself."""
_NEXT_STEPS = (
    (
        r"\b40[13]\b|unauthorized|permission_denied|authentication|access denied",
        "check MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, MLFLOW_TRACKING_TOKEN, or the URI's user",
    ),
    ("locked", "another process has locked the database: wait, then run the same command again"),
    ("disk is full|no space left", "free space on the disk, then run the same command again"),
    ("no module named", "install the database's driver: `pip install psycopg2-binary` or `pymysql`"),
)


def dialect(uri: str) -> str:
    """`sqlite`, `postgresql`, `http`, ..., without the driver's name."""
    scheme, colon, _ = uri.partition(":")
    return scheme.partition("+")[0].lower() if colon else ""


def is_database(uri: str) -> bool:
    """Tell whether this process accesses the database itself, and must check its schema."""
    return dialect(uri) in ("sqlite", *_PORTS)


def sqlite_path(uri: str) -> Path:
    """The file of a `sqlite:///` URI."""
    return Path(uri.partition(":///")[2].partition("?")[0])


def redact(text: str, uri: str) -> str:
    """`text` without what gives access: the user and password of any URI in it, the values of parameters such as
    `password=` and `token=`, the headers that carry them, and the secrets of `uri` and the environment."""
    text = re.sub(r"(\w://)[^\s'\"]*@", r"\1***@", text)
    text = _PARAMETER.sub(_without_value, text)
    text = _AUTHORIZATION.sub(r"\1***", text)
    for secret in _secrets(uri):
        pattern = re.escape(secret)
        text = re.sub(pattern if len(secret) >= _SHORT else rf"(?<!\w){pattern}(?!\w)", "***", text)
    return text


def probe(uri: str) -> None:
    """Raises `StoreError` within `PROBE_TIMEOUT_S` if nothing answers at `uri`. Writes nothing."""
    kind = dialect(uri)
    try:
        if kind in ("http", "https"):
            _probe_server(uri)
        elif kind in _PORTS:
            parts = urlsplit(uri)
            address = (parts.hostname or "localhost", parts.port or _PORTS[kind])
            socket.create_connection(address, PROBE_TIMEOUT_S).close()
        elif kind == "sqlite":
            _probe_file(sqlite_path(uri))
    except (OSError, sqlite3.Error, ValueError) as error:
        reason = redact(str(getattr(error, "reason", error)) or type(error).__name__, uri)
        raise StoreError(f"MLflow at {redact(uri, uri)} cannot be reached: {reason}", _start_it(kind)) from None


def check_schema(uri: str, migrations: Path, version: str) -> None:
    """Raises `StoreError` if the database lacks the schema of `migrations` (the folder of MLflow `version`).

    An empty database passes. sqlalchemy and alembic come with mlflow, and importing them is as slow.
    """
    import sqlalchemy
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory

    engine = sqlalchemy.create_engine(uri)
    try:
        with engine.connect() as connection:
            if not sqlalchemy.inspect(connection).get_table_names():
                return
            revision = MigrationContext.configure(connection).get_current_revision()
    finally:
        engine.dispose()
    scripts = ScriptDirectory(str(migrations))
    if revision == scripts.get_current_head():
        return
    shown = redact(uri, uri)
    if revision is None:
        raise StoreError(f"{shown} is not a database of MLflow", "set MLFLOW_TRACKING_URI to another one")
    if any(script.revision == revision for script in scripts.walk_revisions()):
        raise StoreError(
            f"the database {shown} was made by an older MLflow (schema {revision}; this is {version})",
            f"back it up, then run `mlflow db upgrade {shown}`: everyone who uses it needs MLflow {version}",
        )
    raise StoreError(
        f"the database {shown} was made by a newer MLflow (schema {revision}; this is {version})",
        "run `pip install --upgrade mlflow`, or set MLFLOW_TRACKING_URI to another database",
    )


def next_step(text: str) -> str:
    """Return what to do about an error of MLflow's with this text."""
    for pattern, step in _NEXT_STEPS:
        if re.search(pattern, text, re.IGNORECASE):
            return step
    return "see MLflow's log; the journal keeps everything, and the next `edgesweep run` sends it"


def _probe_server(uri: str) -> None:
    # Without user and password: urllib does not accept them in a URI, and the page answers without them.
    parts = urlsplit(uri)
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
    try:
        urllib.request.urlopen(f"{bare}/health", timeout=PROBE_TIMEOUT_S).close()  # noqa: S310  # http or https, above
    except urllib.error.HTTPError as error:
        error.close()  # a server answers; the first request will show whether it is MLflow
    except urllib.error.URLError as error:
        if "CERTIFICATE" not in str(error.reason):  # MLflow has its own settings for certificates
            raise


def _probe_file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(connect(path, busy_s=PROBE_TIMEOUT_S)) as db:
        db.execute("PRAGMA schema_version").fetchone()


def _without_value(match: re.Match[str]) -> str:
    hidden = _is_secret(match["name"]) or match["name"].casefold() in ("user", "username")
    return f"{match['before']}{match['name']}=***" if hidden else match[0]


def _is_secret(parameter: str) -> bool:
    return _SECRET_NAME.search(unquote(parameter)) is not None


def _secrets(uri: str) -> list[str]:
    """In every form in which a server or a library may repeat them, the longest first."""
    try:
        parts = urlsplit(uri)
        user, password = unquote(parts.username or ""), parts.password or ""
    except ValueError:
        user, password = "", ""
    values = [match["value"].strip("'\"") for match in _PARAMETER.finditer(uri) if _is_secret(match["name"])]
    values += [value.partition("#")[0] for value in values]
    plain = [form for secret in (password, *values) for form in (secret, unquote(secret))]
    plain += [os.environ.get(name, "") for name in _SECRETS]
    users = {user, os.environ.get("MLFLOW_TRACKING_USERNAME", ""), ""}
    encoded = [
        base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")
        for secret in filter(None, plain)
        for text in (secret, *(f"{name}:{secret}" for name in users))
    ]
    return sorted({*filter(None, plain), *encoded}, key=len, reverse=True)


def _start_it(kind: str) -> str:
    if kind == "sqlite":
        return "check that the file is MLflow's and that you may write to it, or set MLFLOW_TRACKING_URI to another one"
    return "start the server, correct MLFLOW_TRACKING_URI, or unset it to keep results in the workspace"


def has_store(uri: str) -> bool:
    """Tell whether results may be there: not if it is a file that is missing."""
    return dialect(uri) != "sqlite" or sqlite_path(uri).exists()
