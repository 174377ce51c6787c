"""How workflows of typed nodes are written, by the platforms that they come from and go to."""
