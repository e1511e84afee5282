"""Devices packed into ResourceSlices, and the one publisher that keeps them so."""
