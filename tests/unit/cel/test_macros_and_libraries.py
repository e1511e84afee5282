"""Macros, optionals and the libraries of Kubernetes."""

from collections.abc import Callable
from typing import Any

import pytest

from dra_driver.cel import EvaluationError

TRUE = {
    "comprehensions": "xs.all(v, v > 0) && xs.exists(v, v == 2) && xs.exists_one(v, v == 2) && m.exists(k, k == 'key')",
    "map and filter": "xs.map(v, v * 2) == [2, 4, 6] && xs.map(v, v > 1, v) == [2, 3] && xs.filter(v, v > 1) == [2, 3]",
    "nested": "xs.all(v, [v].all(v, v > 0)) && xs.map(v, xs.map(w, v * w).sum()).sum() == 36",
    "two variables": "xs.all(i, v, v == i + 1) && m.exists(k, v, v == 'value') && xs.existsOne(i, v, i == v - 1 && i == 0)",
    "transformList": "xs.transformList(i, v, i * v) == [0, 2, 6] && xs.transformList(i, v, i > 0, v) == [2, 3]",
    "transformMap": "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2} && {'a': 1}.transformMap(k, v, v > 1, v) == {}",
    "transformMapEntry": "{'a': 'b'}.transformMapEntry(k, v, {v: k}) == {'b': 'a'}",
    "bind": "cel.bind(y, n + 1, y * y) == 4 && cel.bind(n, 5, n) == 5 && n == 1",
    "optional select": "m.?key.orValue('') == 'value' && !m.?other.hasValue() && m[?'other'].orValue(7) == 7",
    "optional chain": "{'a': {'b': 1}}.?a.?b.value() == 1 && !{'a': {'b': 1}}.?x.b.hasValue() && xs[?9] == optional.none()",
    "optional or": "optional.none().or(optional.of(1)).value() == 1 && optional.ofNonZeroValue(0) == optional.none()",
    "optional maps": "m.?key.optMap(v, v + '!').value() == 'value!' && m.?key.optFlatMap(v, m.?other) == optional.none()",
    "optional literals": "[?m.?other] == [] && {?'a': m.?key, ?'b': m.?other} == {'a': 'value'}",
    "optional lists": "xs.first().value() == 1 && [].last() == optional.none() && optional.unwrap([m.?other, m.?key]) == ['value']",
    "strings": "'a-b'.split('-') == ['a', 'b'] && ['a', 'b'].join('-') == 'a-b' && 'abc'.charAt(1) == 'b' && 'aXa'.lowerAscii() == 'axa'",
    "more strings": "' x '.trim() == 'x' && 'abcb'.indexOf('b', 2) == 3 && 'abcb'.lastIndexOf('b') == 3 && 'abc'.substring(1, 2) == 'b'",
    "replace": "'aaa'.replace('a', 'b', 2) == 'bba' && 'ab'.replace('', '-') == '-a-b-' && 'abc'.split('', 2) == ['a', 'bc']",
    "quote": r"strings.quote('a\n\"b\"') == '\"a\\n\\\"b\\\"\"'",
    "format": "'%s %d %.2f %x %X %b %o %%'.format(['a', 3, 1234.5, 255, 'k', 5, 8]) == 'a 3 1,234.50 ff 6B 101 10 %'",
    "format of values": "'%s %s %s'.format([[1, 'a', null], {'k': true}, 1.5]) == '[1, \"a\", null] {\"k\":true} 1.5'",
    "format with an exponent": "'%.1e'.format([1500.0]) == '1.5\u00d710⁰³'",
    "regex": "'H100 80GB'.find('[0-9]+GB') == '80GB' && 'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'GPU'.matches('(?i)gpu')",
    "regex limits": "'a1b22'.findAll('[0-9]+', 1) == ['1'] && matches('abc', '^a.c$') && 'x'.find('y') == ''",
    "lists": "[3, 1].sort() == [1, 3] && ['bb', 'a'].sortBy(v, v.size()) == ['a', 'bb'] && [1, 1].distinct() == [1]",
    "more lists": "[1, 2].reverse() == [2, 1] && [1, 2, 3].slice(1, 3) == [2, 3] && [[1], [2, 3]].flatten() == [1, 2, 3]",
    "sums": "xs.sum() == 6 && [1.5].sum() == 1.5 && xs.min() == 1 && xs.max() == 3 && xs.isSorted() && xs.indexOf(2) == 1",
    "sets": "sets.contains([1, 2], [2]) && sets.equivalent([1, 2], [2, 1, 1]) && sets.intersects([1], [1, 2])",
    "quantities": "quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('1.5Gi').sub(1).add(quantity('1')).compareTo(quantity('1.5Gi')) == 0",
    "whole quantities": "quantity('50k').asInteger() == 50000 && !quantity('0.5Gi').isInteger() && !quantity('1000m').isInteger()",
    "quantity signs": "sign(quantity('-1')) == -1 && isQuantity('1Ki') && !isQuantity('1GB') && quantity('1e3') == quantity('1k')",
    "versions": "semver('1.2.3-rc.1').isLessThan(semver('1.2.3')) && semver('1.0.0-alpha.2').isLessThan(semver('1.0.0-alpha.10'))",
    "normalized versions": "semver('v01.2', true) == semver('1.2.0') && semver('1.0.0+a') == semver('1.0.0+b') && !isSemver('v1.0.0')",
    "addresses": "ip('10.0.0.1').family() == 4 && isIP('::1') && !isIP('::ffff:1.2.3.4') && ip('::1').isLoopback() && string(ip('::1')) == '::1'",
    "networks": "cidr('10.1.2.3/8').containsIP('10.9.9.9') && cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.0.0.0/8').ip() == ip('10.0.0.0')",
    "network sizes": "cidr('fd00::/8').prefixLength() == 8 && !isCIDR('10.0.0.0') && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')",
    "urls": "url('https://u@[::1]:80/a?b=c&b=d').getHost() == '[::1]:80' && url('https://h:80/a?b=c').getQuery() == {'b': ['c']}",
    "url parts": "url('https://h:80/a b'.replace(' ', '%20')).getEscapedPath() == '/a%20b' && url('http://h:8').getPort() == '8' && !isURL('a b')",
    "formats": "format.dns1123Label().validate('Bad').hasValue() && !format.named('uuid').value().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()",
}


@pytest.mark.parametrize("source", TRUE.values(), ids=TRUE)
def test_holds(evaluate: Callable[..., Any], source: str) -> None:
    assert evaluate(source) is True


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("optional.none().value()", "optional.none"),
        ("[].min() == 1", "min called on empty list"),
        ("'abc'.substring(2, 1)", "invalid substring range"),
        ("'abc'.charAt(4)", "index out of range: 4"),
        ("quantity('80GB')", "quantities must match"),
        ("quantity('1m').asInteger()", "cannot convert value to integer"),
        ("semver('1.02.3')", "leading zeroes"),
        ("ip('10.0.0.300')", "parse error"),
        ("cidr('10.0.0.0/33')", "parse error"),
        ("url('no url')", "URL parse error"),
        ("'x'.find('(' + s)", "error parsing regexp"),
        ("[dyn(1), dyn('a')].sort()", "same type"),
        ("'%d'.format(x)", "cannot be used"),
        ("{'a': 'k', 'b': 'k'}.transformMapEntry(k, v, {v: k})", "already exists"),
    ],
)
def test_fails_when_evaluated(evaluate: Callable[..., Any], source: str, message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        evaluate(source, x=["a"], s="")
