"""What every long-running process of this project has: flags, logs, probes, and an orderly end.

The node plugin and the controller share it, and nothing here knows what either of them does.
"""
