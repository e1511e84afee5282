"""The embedded cluster: API server, scheduler and kubelet for tests, demo and laptops.

`cluster` puts it together. `apiserver/` speaks real HTTP, and all others are clients of it: `controllers` leads
claims through their lives, `scheduler/` allocates, `kubelet/` prepares and runs, over the plugins' real sockets.
What they share: `claims` (questions about Pods and their claims), `pods` (their status), `events`, `workqueue`.
"""
