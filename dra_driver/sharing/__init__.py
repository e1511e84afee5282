"""Several containers on one device: time-slicing and MPS, as steps of a claim's preparation."""
