"""An API server in the process: real HTTP, real semantics, nothing on disk.

Layers, bottom up: `kinds` and `schema` say what there is; `storage` keeps objects and changes; `registry`
(with `rules`, `defaults`, `gates`, `patches`, `ownership`, `admission`) makes writes behave as in Kubernetes;
`application` (with `watches`, `tables`, `discovery`, `openapi`, `selectors`) answers requests; `server`
speaks HTTP. Answers, texts included, were held against a kube-apiserver 1.36.
"""

from dra_driver.embedded.apiserver.faults import Faults
from dra_driver.embedded.apiserver.server import ApiServer
from dra_driver.embedded.apiserver.status import StatusError
from dra_driver.embedded.apiserver.store import Store

__all__ = ["ApiServer", "Faults", "StatusError", "Store"]
