"""The kubelet's protocols: registration, Dynamic Resource Allocation v1 and v1beta1, over unix sockets.

Generated code is in `pb/`. A server here never decides anything about a claim: it translates between wire and
`prepare/`, and makes sure that every requested claim gets exactly one entry in the answer.
"""
