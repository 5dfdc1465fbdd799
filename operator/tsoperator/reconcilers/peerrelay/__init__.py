"""PeerRelays: relays with public addresses for devices that can't reach each other directly."""
