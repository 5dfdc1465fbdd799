"""Tests of the commands ``tsoperator check`` and ``tsoperator list``."""
