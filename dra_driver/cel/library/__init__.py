"""The libraries that Kubernetes puts into its base environment, as tables of overloads.

Each module is one library and exports `LIBRARY`. `KUBERNETES` is all of them, at their defaults in 1.36 and 1.37.
"""

from dra_driver.cel.library import (
    format,  # noqa: A004 - the library's name
    lists,
    net,
    optional,
    quantity,
    regex,
    semver,
    sets,
    standard,
    strings,
    time,
    url,
)

KUBERNETES = tuple(
    module.LIBRARY
    for module in (
        standard,
        time,
        optional,
        strings,
        regex,
        lists,
        sets,
        quantity,
        semver,
        net,
        url,
        format,
    )
)
