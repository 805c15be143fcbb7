"""Record runs on GPUs, whatever profiles them: commands, run folders and checks."""
