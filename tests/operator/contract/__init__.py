"""What the operator promises of every kind of object, stated once and tried on each."""
