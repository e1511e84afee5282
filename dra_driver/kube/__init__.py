"""Access to the Kubernetes API: requests, lists that follow a watch, Events. Objects are plain dicts."""
