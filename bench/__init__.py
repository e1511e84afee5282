"""`make bench`: speed and memory of the node plugin, beside a bare plugin's from the same run.

Wall-clock figures of one machine say little about another, and not even much about the same one an hour later.
So each figure stands beside that of a plugin which does the least that any plugin must (`bare`): it fetches
the claim and writes a CDI spec. Both talk to the same stub API server, a process of its own that answers after
2 ms, and are called by the same client, in turns.

A second table is of selectors, allocation and explanations (`scheduling`), beside the figures that they have to keep to.
"""
