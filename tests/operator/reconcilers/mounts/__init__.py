"""Tests of the touches that make the kubelet mount a changed configuration."""
