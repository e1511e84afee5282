"""The validating admission webhook: claims, templates, classes and workloads checked as they are applied.

    HTTPS --server--> AdmissionReview --protocol--> request --reviewer--> findings of lint --policy--> deny, warn, nothing

The judgement is lint's; here it meets the cluster. `cluster` says what there is, `policy` what a finding means where.
"""
