"""The files of `infra/server/` are valid, and say what EdgeSweep, MLflow and Ray take. No container is started."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from check_jsonschema import main as check_jsonschema
from click.testing import CliRunner

from sweeps.cli.main import main
from workers.hosts.access import environment

ROOT = Path(__file__).parents[1]
SERVER = ROOT / "infra" / "server"
COMPOSE = SERVER / "compose.yaml"
PAGE = (ROOT / "infra" / "server.md").read_text(encoding="utf-8")
SECRETS = ("postgres_password", "objects_config.json", "objects_credentials", "lab_token")


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return dict(yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"])


@pytest.fixture(scope="module")
def head() -> dict[str, Any]:
    """The head's part of the RayCluster."""
    documents = list(yaml.safe_load_all((SERVER / "kuberay.yaml").read_text(encoding="utf-8")))
    assert [(document["apiVersion"], document["kind"]) for document in documents] == [("ray.io/v1", "RayCluster")]
    return dict(documents[0]["spec"])


def parsed(group: click.Command, words: list[str]) -> dict[str, Any]:
    """The options of a command line, as the command reads them; nothing runs."""
    context = group.make_context(words[0], words[1:], resilient_parsing=False)
    while isinstance(context.command, click.Group):
        name, command, rest = context.command.resolve_command(context, [*context._protected_args, *context.args])
        assert command is not None, words
        context = command.make_context(name, rest, parent=context)
    return context.params


@pytest.mark.parametrize("wrong", ["", "    restarts: always\n"], ids=["as it is", "wrong"])
def test_the_compose_file_is_one(tmp_path: Path, wrong: str) -> None:
    file = tmp_path / "compose.yaml"
    file.write_text(COMPOSE.read_text(encoding="utf-8").replace("    restart: unless-stopped\n", wrong or "", 1))
    checked = CliRunner().invoke(check_jsonschema, ["--builtin-schema", "vendor.compose-spec", str(file)])
    assert checked.exit_code == (1 if wrong else 0), checked.output


def test_its_commands_are_those_of_edgesweep(services: dict[str, Any]) -> None:
    up = parsed(main, services["head"]["command"])
    assert (up["token_file"], up["state"], up["name"]) == (Path("/run/secrets/lab_token"), Path("/data"), "head")
    dashboard = parsed(main, services["dashboard"]["command"])
    assert (dashboard["host"], dashboard["port"]) == ("0.0.0.0", 8501)
    assert services["dashboard"]["environment"]["MLFLOW_TRACKING_URI"] == "http://mlflow:5000"


def test_mlflow_has_the_options_that_it_is_given(services: dict[str, Any]) -> None:
    program, *words = services["mlflow"]["command"]
    assert (program, words[0]) == ("mlflow", "server")
    completed = subprocess.run(
        [sys.executable, "-m", "mlflow", "server", "--help"], capture_output=True, text=True, check=True
    )
    known = set(re.findall(r"--[a-z-]+", completed.stdout))
    options = dict(word.split("=") for word in words[1:])
    assert options.keys() <= known
    assert "mlflow:5000" in options["--allowed-hosts"].split(","), "the dashboard's name for it"


def test_the_script_that_starts_mlflow_is_shell_and_python(services: dict[str, Any]) -> None:
    shell, flags, script, _ = services["mlflow"]["entrypoint"]
    script = script.replace("$$", "$")
    assert (shell, flags) == ("sh", "-ceu")
    subprocess.run(["sh", "-n", "-c", script], check=True)
    (python,) = re.findall(r"python -c '(.+)'", script)
    compile(python, "entrypoint", "exec")


def test_nothing_is_reached_from_other_computers_but_the_lab(services: dict[str, Any]) -> None:
    published = {name: service.get("ports", []) for name, service in services.items()}
    assert all(port.startswith("127.0.0.1:") for ports in published.values() for port in ports)
    assert sorted(name for name, ports in published.items() if ports) == ["dashboard", "mlflow"]
    assert [name for name, service in services.items() if service.get("network_mode") == "host"] == ["head"]
    assert services["postgres"]["networks"] == services["objects"]["networks"] == ["inside"]


def test_secrets_are_in_files_alone_which_the_page_makes(tmp_path: Path, services: dict[str, Any]) -> None:
    for service in services.values():
        values = [str(value) for value in service.get("environment", {}).values()]
        assert not any(re.search(r"(?i)password=|:[^/]+@", value) for value in values)
    recipe = PAGE.split("```bash\n")[1].split("sudo")[0]
    subprocess.run(["bash", "-ceu", recipe], cwd=tmp_path, check=True)
    files = {path.name: path for path in (tmp_path / "secrets").iterdir()}
    assert sorted(files) == sorted(SECRETS)
    assert all(path.stat().st_mode & 0o077 == 0 for path in files.values())
    named = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["secrets"].values()
    assert sorted(Path(secret["file"]).name for secret in named) == sorted(SECRETS)
    (identity,) = json.loads(files["objects_config.json"].read_text())["identities"]
    (keys,) = identity["credentials"]
    assert keys["secretKey"] in files["objects_credentials"].read_text()
    assert keys["accessKey"] in files["objects_credentials"].read_text()


def test_who_reads_a_secret_is_its_owner_or_root(services: dict[str, Any]) -> None:
    """The secrets are files of user 1000 and mode 0600, and are mounted as they are."""
    owner = {
        name: "1000" if service["image"] == "edgesweep" else service.get("user", "")
        for name, service in services.items()
    }
    with_secrets = {name for name, service in services.items() if service.get("secrets")}
    assert {name for name in with_secrets if owner[name].partition(":")[0] == "1000"} == {"postgres", "mlflow", "head"}
    assert with_secrets - {"postgres", "mlflow", "head"} == {"objects"}, "its image runs as root"


def test_the_image_has_the_parts_of_the_repository_and_is_not_root() -> None:
    lines = (SERVER / "Dockerfile").read_text(encoding="utf-8").splitlines()
    copied = [word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]]
    assert copied
    assert all((ROOT / word).exists() for word in copied)
    assert "USER edgesweep" in lines
    assert "FROM python:3.11-slim-bookworm" in lines


def test_on_kubernetes_ray_gets_what_host_up_gives_it(head: dict[str, Any]) -> None:
    (container,) = head["headGroupSpec"]["template"]["spec"]["containers"]
    variables = {variable["name"]: variable["value"] for variable in container["env"]}
    token = Path(variables["RAY_AUTH_TOKEN_PATH"])
    own_variables = environment(token, "10.0.0.5")
    assert variables.items() <= own_variables.items()
    patience = [name for name in own_variables if name.startswith(("RAY_health", "RAY_grpc"))]
    assert {*patience, "RAY_USE_UVLOOP"} <= variables.keys()
    assert patience
    pins = (ROOT / "infra" / "constraints.txt").read_text().splitlines()
    assert f"ray=={head['rayVersion']}" in pins
    (volume,) = head["headGroupSpec"]["template"]["spec"]["volumes"]
    mounted = container["volumeMounts"][0]["mountPath"]
    assert token == Path(mounted) / volume["secret"]["items"][0]["path"]
    assert f"generic {volume['secret']['secretName']} --from-file={volume['secret']['items'][0]['key']}=" in PAGE
