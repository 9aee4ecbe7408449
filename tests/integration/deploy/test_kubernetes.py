"""The manifests are what Kubernetes and KEDA take, what they name exists, and KEDA's question is
answered from the index."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import psycopg
import pytest
import sqlalchemy as sa
import yaml

from scraper.infra.setting_sources import variable
from scraper.settings import Settings
from scraper.sites import loader
from tests.support import making
from tests.support.deploy import compose, dockerfile, kustomize
from tests.support.deploy.kustomize import Resource, pod_spec
from tests.support.servers import pgbouncer
from tests.support.servers.ports import unused_port

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "deploy" / "kubernetes"
KEDA = json.loads((ROOT / "tests" / "schemas" / "keda.json").read_text())
PROFILE = {"RuntimeDefault", "Localhost"}


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with secrets as the documentation makes them."""
    folder = tmp_path_factory.mktemp("kubernetes")
    shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
    example = folder / "overlays" / "example"
    words = [
        sys.executable,
        ROOT / "deploy" / "make_secrets.py",
        example / "secrets",
        "--postgres",
        "postgres.scraper.svc",
    ]
    subprocess.run(words, check=True, capture_output=True)
    return example


@pytest.fixture(scope="module")
def resources(example: Path) -> list[Resource]:
    return kustomize.build(example)


def named(resources: list[Resource], kind: str) -> dict[str, Resource]:
    return {each["metadata"]["name"]: each for each in resources if each["kind"] == kind}


def pods(resources: list[Resource]) -> dict[str, dict[str, Any]]:
    found = [(each["metadata"]["name"], pod_spec(each)) for each in resources]
    return {name: spec for name, spec in found if spec is not None}


def ours(resources: list[Resource]) -> dict[str, dict[str, Any]]:
    return {
        name: spec for name, spec in pods(resources).items() if name not in ("postgres", "redis")
    }


@pytest.mark.parametrize("version", ["1.29", kubernetes_validate.latest_version()])
def test_kubernetes_takes_them(resources: list[Resource], version: str) -> None:
    for resource in resources:
        if resource["apiVersion"].startswith("keda.sh/"):
            schema = {**KEDA[resource["kind"]], "$defs": KEDA["$defs"]}
            jsonschema.validate(resource["spec"], schema)
            assert resource["apiVersion"] == "keda.sh/v1alpha1"
        else:
            kubernetes_validate.validate(resource, version, strict=True)


def test_a_mistake_would_be_seen(resources: list[Resource]) -> None:
    wrong = json.loads(json.dumps(named(resources, "Deployment")["coordinator"]))
    wrong["spec"]["template"]["spec"]["containers"][0]["imagePulPolicy"] = "Always"
    with pytest.raises(jsonschema.ValidationError):
        kubernetes_validate.validate(wrong, "1.29", strict=True)


def test_kustomize_makes_the_same(example: Path, resources: list[Resource]) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed (Debian's is too old)")
    done = subprocess.run(
        [kubectl, "kustomize", example], capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr

    def sorted_(all_: list[Resource]) -> list[Resource]:
        return sorted(all_, key=lambda each: (each["kind"], each["metadata"]["name"]))

    made = list(yaml.safe_load_all(done.stdout))
    for secret in (each for each in made if each["kind"] == "Secret"):
        secret["data"] = {name: "".join(text.split()) for name, text in secret["data"].items()}
    assert sorted_(made) == sorted_(resources)


def test_the_pods_are_restricted(resources: list[Resource]) -> None:
    """As the Pod Security Standard `restricted` wants it, and with a root that is read-only."""
    for name, spec in pods(resources).items():
        security = spec["securityContext"]
        assert (
            security["runAsNonRoot"]
            and security["runAsUser"]
            and security["seccompProfile"]["type"] in PROFILE
        ), name
        assert spec["automountServiceAccountToken"] is False
        for container in spec["containers"]:
            own = container["securityContext"]
            assert (
                own["capabilities"] == {"drop": ["ALL"]}
                and own["allowPrivilegeEscalation"] is False
            )
            assert (
                own["readOnlyRootFilesystem"] is True and container["resources"]["limits"]["memory"]
            ), name
    assert (
        pods(resources)["worker-browser"]["securityContext"]["seccompProfile"]["type"]
        == "Localhost"
    )


def test_drained_nodes_take_a_part_of_each_kind_of_process(resources: list[Resource]) -> None:
    budgets = named(resources, "PodDisruptionBudget")
    workers = {name for name in pods(resources) if name.startswith("worker-")}
    assert budgets.keys() == {*workers, "coordinator", "beat"} and len(workers) == 3
    assert {budgets[name]["spec"]["maxUnavailable"] for name in workers} == {"25%"}
    (spread,) = pods(resources)["coordinator"]["topologySpreadConstraints"]
    assert spread["labelSelector"] == budgets["coordinator"]["spec"]["selector"]


def test_the_servers_are_probed(resources: list[Resource]) -> None:
    """One that starts slowly or has too many clients is not restarted."""
    for name in ("postgres", "redis"):
        (container,) = pods(resources)[name]["containers"]
        (port,) = (row["containerPort"] for row in container["ports"])
        assert container["livenessProbe"]["tcpSocket"] == {"port": port}
        assert container["readinessProbe"]["exec"]
    startup = pods(resources)["postgres"]["containers"][0]["startupProbe"]
    assert startup["failureThreshold"] * startup["periodSeconds"] >= 600


def test_the_example_server_has_room_for_all_connections(resources: list[Resource]) -> None:
    """As many as docs/how-to/production.md says of each process, with KEDA's most workers, each
    kind of process surging by a pod, and a command and the migration."""
    each = {"coordinator": 5, "flower": 6, "metrics": 2, "beat": 0}
    scaled = named(resources, "ScaledObject")
    needed = 8 + 3
    for name, deployment in named(resources, "Deployment").items():
        if name == "redis":
            continue
        replicas = deployment["spec"]["replicas"]
        if name in scaled:
            replicas = scaled[name]["spec"]["maxReplicaCount"] * 5 // 4
        needed += (replicas + 1) * each.get(name, 3)
    (server,) = pods(resources)["postgres"]["containers"]
    allowed = int(str(server["args"][-1]).partition("max_connections=")[2])
    assert needed + 3 <= allowed, "three are the superuser's"


def test_a_pooler_may_stand_between(example: Path, servers: Settings, empty_database: str) -> None:
    """The manifests are closed as the others are, and Debian's PgBouncer takes their file: through
    it the password alone leads to PostgreSQL."""
    path = example / "kustomization.yaml"
    text = path.read_text()
    path.write_text(text.replace("# - ../../pooler", "- ../../pooler"))
    try:
        resources = kustomize.build(example)
    finally:
        path.write_text(text)
    test_kubernetes_takes_them(resources, "1.29")
    test_the_pods_are_restricted(resources)
    test_what_they_name_exists(resources)
    spec = pods(resources)["pooler"]
    (spread,) = spec["topologySpreadConstraints"]
    budget = named(resources, "PodDisruptionBudget")["pooler"]["spec"]
    assert budget["selector"] == spread["labelSelector"]
    assert dockerfile.stages()["pooler"].command == spec["containers"][0]["args"]
    users = base64.b64decode(named(resources, "Secret")["scraper-pooler"]["data"]["userlist.txt"])
    config = named(resources, "ConfigMap")["pooler"]["data"]["pgbouncer.ini"]
    config = config.replace("host=postgres", f"host={servers.socket_dir}")
    program = pgbouncer.need_pgbouncer()
    password = users.decode().split('"')[3]
    name = sa.make_url(empty_database).database
    port = unused_port()
    config = config.replace("6432", str(port))
    url = f"postgresql://scraper:{{}}@127.0.0.1:{port}/{name}"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pooler-")))
        (folder / "users.txt").write_bytes(users)
        config = config.replace("/run/secrets/userlist.txt", str(folder / "users.txt"))
        stack.enter_context(pgbouncer.started(program, servers, folder, config, port))
        with psycopg.connect(url.format(password)) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(psycopg.OperationalError, match="SASL authentication failed"):
            psycopg.connect(url.format("wrong"))


def test_an_upgrade_can_apply_the_migration_alone(resources: list[Resource]) -> None:
    """`kubectl apply -l` chooses by the labels of the object itself, and of no other."""
    labelled = [
        (row["kind"], row["metadata"]["name"])
        for row in resources
        if row["metadata"].get("labels", {}).get("app.kubernetes.io/name") == "migrate"
    ]
    assert labelled == [("Job", "migrate")]
    document = (ROOT / "docs" / "how-to" / "production.md").read_text()
    assert "-l app.kubernetes.io/name=migrate" in document and "wait --for=condition" in document


def test_what_they_name_exists(resources: list[Resource]) -> None:
    secrets, maps = named(resources, "Secret"), named(resources, "ConfigMap")
    labels = [
        each["spec"]["template"]["metadata"]["labels"] for each in resources if pod_spec(each)
    ]

    def chosen(selector: dict[str, str]) -> bool:
        return any(selector.items() <= each.items() for each in labels)

    for spec in pods(resources).values():
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        volumes |= {"postgres": {}}  # by a claim
        keys = set()
        for volume in volumes.values():
            sources = [volume, *volume.get("projected", {}).get("sources", [])]
            for source in (each["secret"] for each in sources if "secret" in each):
                held = secrets[source.get("secretName") or source["name"]]["data"]
                keys |= {item["key"] for item in source.get("items", [])} or set(held)
                assert keys <= {key for each in secrets.values() for key in each["data"]}
            if "configMap" in volume:
                assert volume["configMap"]["name"] in maps
        for container in spec["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= set(volumes)
            for each in container.get("envFrom", []):
                assert each["configMapRef"]["name"] in maps
            given = {each["name"]: each["value"] for each in container.get("env", [])}
            given |= maps["scraper"]["data"] if container.get("envFrom") else {}
            for name, value in given.items():
                if name.endswith("_FILE"):
                    assert Path(value).name in keys, f"{name} of {container['name']}"
    for kind in ("Service", "PodDisruptionBudget"):
        for each in named(resources, kind).values():
            selector = each["spec"]["selector"]
            assert chosen(selector.get("matchLabels", selector)), each["metadata"]
    assert chosen({"app.kubernetes.io/part-of": "scraper"}) and chosen(
        {"scraper/serves": "scraper"}
    )
    for each in named(resources, "ScaledObject").values():
        assert each["spec"]["scaleTargetRef"]["name"] in named(resources, "Deployment")
        reference = each["spec"]["triggers"][0]["authenticationRef"]["name"]
        (target,) = named(resources, "TriggerAuthentication")[reference]["spec"]["secretTargetRef"]
        assert target["key"] in secrets[target["name"]]["data"]
    address = base64.b64decode(secrets["scraper-secrets"]["data"]["database_url"]).decode()
    assert "@postgres.scraper.svc:5432/" in address and "postgres" in named(resources, "Service")


def test_they_are_the_services_of_docker_compose(resources: list[Resource]) -> None:
    """The same commands and settings, the same time to stop."""
    services = compose.read()["services"]
    settings = {variable(name, field) for name, field in Settings.model_fields.items()}
    stages = dockerfile.stages()
    for name, spec in ours(resources).items():
        (container,), service = spec["containers"], services[name]
        assert [str(word) for word in container["args"]] == service["command"], name
        assert (
            stages[service["build"]["target"]].user
            == f"{spec['securityContext']['runAsUser']}:10001"
        )
        for each in container.get("env", []):
            assert each["name"].removesuffix("_FILE") in settings
        if "stop_grace_period" in service:
            assert spec["terminationGracePeriodSeconds"] == compose.seconds(
                service["stop_grace_period"]
            )
        if "livenessProbe" not in container:
            assert name == "migrate"
        elif "exec" in container["livenessProbe"]:
            command = container["livenessProbe"]["exec"]["command"][-1]
            assert command == stages["app"].health.replace('"', "")
    assert set(ours(resources)) == set(services) - {
        "postgres",
        "redis",
        "rabbitmq",
        "prometheus",
        "grafana",
    }


def test_the_example_site_is_right() -> None:
    assert loader.check_files([FOLDER / "overlays" / "example" / "sites"]) == []


def queries(resources: list[Resource]) -> dict[str, str]:
    found = named(resources, "ScaledObject")
    return {
        name.removeprefix("worker-"): each["spec"]["triggers"][0]["metadata"]["query"]
        for name, each in found.items()
    }


def test_each_queue_is_asked_the_same(resources: list[Resource]) -> None:
    found = queries(resources)
    assert set(found) == {"datacenter", "residential", "browser"}
    assert len({query.replace(f"'{queue}'", "'QUEUE'") for queue, query in found.items()}) == 1


@pytest.mark.usefixtures("own_database")
def test_what_keda_counts(resources: list[Resource], engine: sa.Engine) -> None:
    """Pages that are due, at most a thousand of a host, and those that workers have; not
    another queue's, nor a paused host's, nor later ones. With many pages it is answered from the
    index alone."""
    query = queries(resources)["residential"]

    def counted() -> int:
        with engine.connect() as connection:
            return int(connection.execute(sa.text(query)).scalar_one())

    assert counted() == 0
    crawl = making.open_crawl(engine, making.a_site())
    with engine.begin() as connection:
        connection.execute(
            sa.text("""
            INSERT INTO pages (site_id, crawl_id, fingerprint, url, kind, host, queue, priority, depth, status, not_before)
            SELECT :site, :crawl, gen_random_uuid(), 'https://' || host || '/' || n, 'product', host, queue, 10, 1, status,
                   now() + at * interval '1 hour'
              FROM (VALUES ('large', 'residential', 'due', -1, 5000), ('small', 'residential', 'due', -1, 7),
                           ('later', 'residential', 'due', 1, 50), ('done', 'residential', 'ok', -1, 3000),
                           ('paused', 'residential', 'due', -1, 40), ('large', 'datacenter', 'due', -1, 60))
                   AS v(host, queue, status, at, pages) CROSS JOIN LATERAL generate_series(1, pages) n
            """),
            {"site": crawl[1], "crawl": crawl[0]},
        )
        connection.execute(sa.text("INSERT INTO hosts (host, paused) VALUES ('paused', true)"))
    assert counted() == 1000 + 7
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("VACUUM ANALYZE pages"))
        plan = "\n".join(connection.execute(sa.text(f"EXPLAIN {query}")).scalars())
    assert (
        plan.count("Index Only Scan using pages_due_idx") >= 2 and "Seq Scan on pages" not in plan
    ), plan
