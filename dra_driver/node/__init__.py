"""The node plugin: the process that runs on every GPU node.

`flags` reads what it was told, `plugin` wires the rooms together and runs them, `coexistence` looks whether
somebody else hands out the same GPUs, `probes` and `metrics` tell the outside how it fares.
"""
