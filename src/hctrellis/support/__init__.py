"""What all rooms share: checks, files, memory, progress, threads, late imports."""
