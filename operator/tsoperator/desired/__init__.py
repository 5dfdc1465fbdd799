"""Pure builders that more than one reconciler uses."""
