"""What a person runs beside the operator, and what its log looks like."""
