"""What ``tsoperator check`` looks at with a kubeconfig: one step gathers facts, and pure checks judge them."""
