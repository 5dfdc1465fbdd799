"""Tests of the checks that `tsoperator check` makes with a kubeconfig."""
