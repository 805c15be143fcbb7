"""Record a command under Nsight Systems."""
