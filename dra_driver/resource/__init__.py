"""The rules of resource.k8s.io objects, once: limits, validation, views of requests, versions. Pure."""
