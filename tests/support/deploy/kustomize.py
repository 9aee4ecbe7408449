"""`kustomize build`, as far as deploy/kubernetes uses it, and strict: a key that this does not know
is an error.

So that manifests can be looked at without kubectl; where there is one, its answer has to
be the same.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

Resource = dict[str, Any]
KNOWN = {
    "apiVersion", "kind", "resources", "namespace", "images", "generatorOptions", "configMapGenerator", "secretGenerator",
}  # fmt: skip
CLUSTER_WIDE = {"Namespace"}
NAMED = ("v1", "kustomize.config.k8s.io/v1beta1")


def build(folder: Path) -> list[Resource]:
    """Every resource of a kustomization and of those below it."""
    path = folder / "kustomization.yaml"
    spec = yaml.safe_load(path.read_text())
    assert spec["apiVersion"] == NAMED[1] and spec["kind"] == "Kustomization"
    assert not set(spec) - KNOWN, f"{path}: {set(spec) - KNOWN}"
    assert not spec.get("configMapGenerator") or spec["generatorOptions"] == {
        "disableNameSuffixHash": True
    }
    found: list[Resource] = []
    for name in spec.get("resources", []):
        target = folder / name
        found += build(target) if target.is_dir() else _documents(target)
    found += [_config_map(folder, each) for each in spec.get("configMapGenerator", [])]
    found += [_secret(folder, each) for each in spec.get("secretGenerator", [])]
    for resource in found:
        if "namespace" in spec and resource["kind"] not in CLUSTER_WIDE:
            resource["metadata"]["namespace"] = spec["namespace"]
        for container in _containers(resource):
            for image in spec.get("images", []):
                if container["image"] == image["name"]:
                    container["image"] = f"{image.get('newName', image['name'])}:{image['newTag']}"
    return found


def _documents(path: Path) -> list[Resource]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each is not None]


def _files(folder: Path, names: list[str]) -> dict[str, str]:
    return {Path(name).name: (folder / name).read_text(encoding="utf-8") for name in names}


def _config_map(folder: Path, spec: Resource) -> Resource:
    assert set(spec) <= {"name", "files", "literals"}, spec
    data = dict(pair.partition("=")[::2] for pair in spec.get("literals", [])) | _files(
        folder, spec.get("files", [])
    )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": spec["name"]},
        "data": data,
    }


def _secret(folder: Path, spec: Resource) -> Resource:
    assert set(spec) <= {"name", "files"}, spec
    data = {
        name: base64.b64encode(text.encode()).decode()
        for name, text in _files(folder, spec["files"]).items()
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": spec["name"]},
        "type": "Opaque",
        "data": data,
    }


def pod_spec(resource: Resource) -> Resource | None:
    """What its pods are; None: it has none."""
    if resource["kind"] in ("Deployment", "StatefulSet", "Job"):
        spec: Resource = resource["spec"]["template"]["spec"]
        return spec
    return None


def _containers(resource: Resource) -> list[Resource]:
    spec = pod_spec(resource)
    return [*spec.get("initContainers", []), *spec["containers"]] if spec else []
