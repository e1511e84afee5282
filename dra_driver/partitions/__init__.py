"""MIG devices that live as long as the claim they are made for, as steps with do and undo."""
