"""The contract: what the operator promises about objects of every kind. Each test runs once for each kind."""
