"""Tests of the registration of the operator's own device."""
