"""The webhook's certificate: made here or elsewhere, renewed in time, and known to the API server.

a directory, or a Secret --source--> Material --keeper--> the server's TLS, and caBundle of the webhook configuration
"""
