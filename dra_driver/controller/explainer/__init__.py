"""What the leader says of the cluster in Events: why claims and Pods wait, and what is left over or doubled.

`pending` finds who waits, `answers` works out why, `speaker` tells it; `findings` are about claims, pools and nodes;
`part` is the thread that does it all, on the leader alone.
"""
