"""Tests of what `tsoperator check` looks at with a kubeconfig."""
