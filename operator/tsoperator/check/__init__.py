"""The commands ``tsoperator check`` and ``tsoperator list``, which people run; ``helm test`` runs the former."""
