"""The simulated machine room: virtual time, network, disks and processes."""
