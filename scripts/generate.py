"""Write what is generated: gRPC code from `proto/`, and `api/` and reference pages from the package.

With `--check`, write nothing and fail where a file differs from what would be written.
"""

import sys
import tempfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

from dra_driver.config import node_models, schemas
from dra_driver.controller import pages as controller_pages
from dra_driver.controller.config import ControllerConfig
from dra_driver.devices import catalogue_pages
from dra_driver.lint import pages as lint_pages
from dra_driver.node import pages

ROOT = Path(__file__).parent.parent
PROTO = ROOT / "proto"
PB = Path("dra_driver/kubelet/pb")


def grpc_code() -> Iterator[tuple[Path, str]]:
    """Messages, their types and the stubs of every .proto, and the package around them."""
    yield PB / "__init__.py", '"""Generated from proto/ by scripts/generate.py; do not edit."""\n'
    with tempfile.TemporaryDirectory() as out:
        well_known = Path(grpc_tools.__file__).parent / "_proto"
        for proto in sorted((PROTO / PB).glob("*.proto")):
            arguments = [f"-I{PROTO}", f"-I{well_known}", f"--python_out={out}", f"--pyi_out={out}"]
            arguments += [f"--grpc_python_out={out}", str(proto)]
            if protoc.main(["protoc", *arguments]) != 0:
                sys.exit(f"protoc failed on {proto.relative_to(ROOT)}")
        for file in sorted((Path(out) / PB).iterdir()):
            yield PB / file.name, file.read_text()


def generated() -> Iterator[tuple[Path, str]]:
    yield from grpc_code()
    classes = resources.files("dra_driver.embedded") / "examples" / "deviceclasses.yaml"
    yield Path("deploy/deviceclasses.yaml"), classes.read_text()
    yield Path("api/attributes.yaml"), catalogue_pages.render_yaml()
    for name, text in schemas.render_opaque().items():
        yield Path("api") / name, text
    yield Path("api/controllerconfig.schema.json"), schemas.render(ControllerConfig)
    yield Path("api/nodeconfig.schema.json"), schemas.render(node_models.NodeConfig)
    yield Path("docs/reference/attributes.md"), catalogue_pages.render_markdown()
    yield Path("docs/lint.md"), lint_pages.render_markdown()
    yield Path("docs/reference/flags.md"), pages.render_flags()
    yield Path("docs/reference/metrics.md"), pages.render_metrics()
    yield Path("docs/reference/controller-flags.md"), controller_pages.render_flags()
    yield Path("docs/reference/controller-metrics.md"), controller_pages.render_metrics()


def main() -> int:
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit("usage: generate.py [--check]")
    stale = []
    for path, text in generated():
        target = ROOT / path
        if target.exists() and target.read_text() == text:
            continue
        stale.append(path)
        if not check:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    for path in stale:
        print(f"{path}: {'differs from what is generated; run make generate' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
