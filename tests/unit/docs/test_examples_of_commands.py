"""What pages show as output is what the commands print."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from dra_driver.cli.main import main
from dra_driver.cli.simulated_nodes import nodes
from dra_driver.cli.worlds import packaged_classes

# A block of manifests, the command that reads them, and what it prints.
_EXAMPLE = re.compile(r"```yaml\n(.*?)```\n+```sh\ndra-driver (.*?)\n```\n+```text\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("name", ["explain", "simulate"])
def test_an_example_prints_what_the_page_shows(
    page: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = _EXAMPLE.findall(page[f"docs/{name}.md"].text)
    manifests, command, output = example
    arguments = shlex.split(command)
    cluster = [*nodes("dgx-h100=1,l40s=1"), *packaged_classes()]
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all(cluster))
    (tmp_path / [word for word in arguments if word.endswith(".yaml")][-1]).write_text(manifests)
    monkeypatch.chdir(tmp_path)

    code = main([*arguments, "-o", "table"])  # as on a terminal

    assert (1, output) == (code, capsys.readouterr().out)
