"""Container Device Interface: the specs that give a container its GPUs, and the directory they live in."""
