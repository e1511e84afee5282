"""An API server in the process: real HTTP, real semantics, nothing on disk.

Layers, bottom up: `kinds` and `schema` say what there is; `storage` keeps objects and changes; `registry`,
`deletion` and `binding` make writes behave as in Kubernetes (with `incoming`, `rules`, `defaults`, `gates`,
`patches`, `ownership`, `applying`, `admission`), and `collector` does what follows from them; `application` and
`answers` answer requests (with `bodies`, `selectors`, `watches`, `tables`, `discovery`, `openapi`); `transport`
speaks HTTP. `server` is the whole, `store` its objects for tests in the same process. Answers, texts included, were
held against a kube-apiserver 1.36.
"""

from dra_driver.embedded.apiserver.faults import Faults
from dra_driver.embedded.apiserver.server import ApiServer
from dra_driver.embedded.apiserver.status import StatusError
from dra_driver.embedded.apiserver.store import Store

__all__ = ["ApiServer", "Faults", "StatusError", "Store"]
