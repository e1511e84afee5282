"""A DRA (Dynamic Resource Allocation) driver for NVIDIA GPUs on Kubernetes.

Each package here is a room of the design, named after its job; imports go downwards only (`pyproject.toml`
lists the order and import-linter holds it). Start reading at `node/` for what runs on a GPU node, at
`prepare/` for what happens to a claim, and at `docs/` for what a user sees of both.
"""

__version__ = "0.1.0"
