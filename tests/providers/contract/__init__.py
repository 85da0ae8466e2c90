"""What every bank's adapter has to do, against its simulated bank over HTTP. A bank's peculiarities are in its own
tests."""
