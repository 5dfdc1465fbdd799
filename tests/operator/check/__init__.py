"""Tests of the command `tsoperator check`, which a person runs beside the operator."""
