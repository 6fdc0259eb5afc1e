"""A preflight service on loopback that really probes, and the wire server that tests play broken
answers with."""
