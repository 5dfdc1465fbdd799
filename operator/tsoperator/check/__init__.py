"""The commands ``tsoperator check`` and ``tsoperator list``, which people and ``helm test`` run beside the operator."""
