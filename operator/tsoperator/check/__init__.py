"""The command `tsoperator check`, which a person runs beside the operator."""
