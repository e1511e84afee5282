"""Workloads: kinds with a Pod template, and the field that says how many Pods there are to be."""

WORKLOADS = {
    ("apps/v1", "Deployment"): "replicas",
    ("apps/v1", "ReplicaSet"): "replicas",
    ("apps/v1", "StatefulSet"): "replicas",
    ("batch/v1", "Job"): "parallelism",
}
