"""From hardware facts to the DRA devices that are published: names, attributes, capacities, taints."""
