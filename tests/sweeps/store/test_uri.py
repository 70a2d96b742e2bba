"""Addresses of MLflow, and messages about them, are printed without what gives access."""

import base64

import pytest

from sweeps.store.uri import redact

PLAIN = "postgresql://db/mlflow"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://u:hunter2@db/mlflow",
        "postgresql://u:hunter%32@db/mlflow",
        "postgresql://db/mlflow?user=u&password=hunter2",
        "postgresql://db/mlflow?sslmode=require&PASSWD=hunter2&x=1",
        "mysql+pymysql://db/mlflow?pass%77ord=hunter2",
        "https://host/path?token=hunter2#top",
        "https://host/path?api_key=hunter2;x=1",
        "https://host/?X-Amz-Signature=hunter2",
        "https://host/?access_token='hunter2'",
    ],
)
def test_no_part_of_an_address_that_gives_access_is_printed(uri: str) -> None:
    for text in (uri, f"no entry for {uri}: refused", f'password authentication failed for "hunter2" at {uri}'):
        shown = redact(text, uri)
        assert "hunter" not in shown
        assert "***" in shown


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Basic aHVudGVyMg==",
        "{'authorization': 'Bearer hunter2.hunter2'}",
        f"you sent {encoded('me:hunter2')}",
        f"you sent {encoded('hunter2')}",
        "connection failed: host=db user=u password=hunter2 dbname=x",
        "connection failed: host=db password='hunter2 hunter2' dbname=x",
    ],
)
def test_what_a_server_or_a_driver_repeats_is_not_printed(text: str) -> None:
    shown = redact(text, "https://me:hunter2@host/")
    assert "***" in shown
    for secret in ("hunter2", "aHVudGVyMg", encoded("me:hunter2")):
        assert secret not in shown


def test_secrets_of_the_environment_are_not_printed_in_any_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "me")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "hunter2")
    assert redact(f"{encoded('me:hunter2')} hunter2", PLAIN) == "*** ***"


def test_a_short_password_is_hidden_and_leaves_words_readable() -> None:
    assert redact("postgresql at port 5432: p is wrong", "postgresql://u:p@db/mlflow") == (
        "postgresql at port 5432: *** is wrong"
    )


@pytest.mark.parametrize(
    "text", ["sqlite:////work/mlflow.sqlite", "http://127.0.0.1:5000/a?page=2&experiment=7", "basic errors: a=b"]
)
def test_an_address_without_secrets_stays_as_it_is(text: str) -> None:
    assert redact(text, text) == text
