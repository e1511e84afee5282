"""Render `deploy/` as users will, and check every object against the schemas of Kubernetes 1.37."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

ROOT = Path(__file__).parent.parent
VERSION = "1.37"


def render(*components: str) -> list[dict[str, Any]]:
    """The objects of `kubectl kustomize deploy/`, or of an overlay of it with some of its components."""
    with tempfile.TemporaryDirectory() as directory:
        deploy = os.path.relpath(ROOT / "deploy", directory)
        overlay = {"resources": [deploy], "components": [f"{deploy}/{name}" for name in components]}
        (Path(directory) / "kustomization.yaml").write_text(json.dumps(overlay))
        return _rendered(Path(directory))


def _rendered(directory: Path) -> list[dict[str, Any]]:
    kubectl = Path(sys.executable).parent / "kubectl"
    out = subprocess.run([kubectl, "kustomize", directory], check=True, capture_output=True, text=True)
    return list(yaml.safe_load_all(out.stdout))


def everything() -> list[dict[str, Any]]:
    """All that can be installed from `deploy/`: with its components, and the parts that are applied beside it."""
    found = render("taint-pools")
    for extra in sorted((ROOT / "deploy").glob("*/kustomization.yaml")):
        if yaml.safe_load(extra.read_text())["kind"] == "Kustomization":
            found += _rendered(extra.parent)
    return found


def main() -> int:
    failed = False
    for manifest in everything():
        try:
            kubernetes_validate.validate(manifest, VERSION, strict=True)
        except kubernetes_validate.ValidationError as error:
            failed = True
            print(f"{manifest['kind']} {manifest['metadata']['name']}: {error.message} at {list(error.path)}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
