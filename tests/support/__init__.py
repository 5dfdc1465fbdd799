"""What more than one test module uses."""
