"""Expressions evaluated in an environment with a few variables."""

from collections.abc import Callable
from typing import Any

import pytest

from dra_driver.cel import Environment
from dra_driver.cel.library import KUBERNETES
from dra_driver.cel.types import ANY, DYN, INT, STRING, list_of, map_of


@pytest.fixture(scope="session")
def environment() -> Environment:
    variables = {"x": DYN, "a": ANY, "n": INT, "s": STRING, "xs": list_of(INT), "m": map_of(STRING, ANY)}
    return Environment(variables=variables, libraries=KUBERNETES)


@pytest.fixture
def evaluate(environment: Environment) -> Callable[..., Any]:
    defaults = {"x": None, "a": None, "n": 1, "s": "text", "xs": [1, 2, 3], "m": {"key": "value"}}

    def run(source: str, **values: Any) -> Any:
        return environment.compile(source).evaluate({**defaults, **values})

    return run
