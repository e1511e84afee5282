"""The process in the cluster: claims checked at the door, and explained while they wait.

`parts` of one `process`: the webhook, which every replica serves, and what one leader writes.
"""
