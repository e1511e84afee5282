"""The embedded cluster: API server, scheduler and kubelet for tests, demo and laptops."""
