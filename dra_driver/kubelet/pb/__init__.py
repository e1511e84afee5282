"""Generated from proto/ by scripts/generate.py; do not edit."""
