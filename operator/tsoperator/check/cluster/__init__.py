"""The parts of ``tsoperator check`` with a kubeconfig: one step gathers facts, and pure checks judge them."""
