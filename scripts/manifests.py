"""Render `deploy/` as users will, and check every object against the schemas of Kubernetes 1.37."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

ROOT = Path(__file__).parent.parent
VERSION = "1.37"


def render() -> list[dict[str, Any]]:
    """The objects of `kubectl kustomize deploy/`."""
    kubectl = Path(sys.executable).parent / "kubectl"
    out = subprocess.run([kubectl, "kustomize", ROOT / "deploy"], check=True, capture_output=True, text=True)
    return list(yaml.safe_load_all(out.stdout))


def main() -> int:
    failed = False
    for manifest in render():
        try:
            kubernetes_validate.validate(manifest, VERSION, strict=True)
        except kubernetes_validate.ValidationError as error:
            failed = True
            print(f"{manifest['kind']} {manifest['metadata']['name']}: {error.message} at {list(error.path)}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
