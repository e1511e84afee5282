"""Which selectors cost too much by the API server's estimate, which knows no length of many functions' results.

Each was judged by Kubernetes 1.36.2.
"""

import pytest

from dra_driver.selectors import compile_selector

_OF_GPU = "device.attributes['gpu.nvidia.com']"
_MEMORY = "device.capacity['gpu.nvidia.com'].memory"


@pytest.mark.parametrize(
    "expression",
    [
        ".?productName.orValue('').contains('H100')",
        ".?productName.orValue('').matches('H100')",
        ".?productName.value().contains('H100')",
        ".?productName.optMap(name, name.contains('H100')).orValue(false)",
        ".productName.split(' ')[0].contains('x')",
        ".productName.split(' ').exists(word, word.contains('x'))",
        ".exists(name, ['a', 'b'].isSorted())",
        ".exists(name, ['a', 'b'].join(',') == 'a,b')",
    ],
)
def test_reading_a_text_of_unknown_length_is_too_complex(expression: str) -> None:
    assert compile_selector(_OF_GPU + expression) == "too complex, exceeds cost limit"


@pytest.mark.parametrize("expression", [f"{_MEMORY} != quantity('80Gi')", f"type({_OF_GPU}.minor) == int"])
def test_so_is_comparing_two_values_of_unknown_size(expression: str) -> None:
    assert compile_selector(expression) == "too complex, exceeds cost limit"


@pytest.mark.parametrize(
    "expression",
    [
        f"{_OF_GPU}.?productName.orValue('') == 'H100'",
        f"{_OF_GPU}.?productName.optMap(name, name.startsWith('NVIDIA')).orValue(false)",
        f"{_OF_GPU}.productName.lowerAscii().contains('h100')",
        f"{_OF_GPU}.productName.split(' ')[0] == 'NVIDIA'",
        f"{_OF_GPU}.productName.split(' ').exists(word, word == 'H100')",
        f"int({_OF_GPU}.profile.split('g.')[0]) == 2",
        f"{_OF_GPU}.?minor.optMap(minor, minor + 1).orValue(9) == 1",
        f"['a', 'b'].map(x, x + 'b').exists(y, y.contains('b')) && -{_OF_GPU}.minor / 2 == 0",
        f"{_MEMORY} == quantity('80Gi') || !({_MEMORY} == quantity('40Gi'))",
        f"{_MEMORY}.add(quantity('1Gi')).isGreaterThan(quantity('80Gi'))",
        "url('https://a.b').getHost() == 'a.b' && 'driver' in dyn(device)",
    ],
)
def test_what_has_a_bound_is_not(expression: str) -> None:
    assert compile_selector(expression) is None
