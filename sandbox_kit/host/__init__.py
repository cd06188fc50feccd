"""This process and the host's file system: descriptors, pinned paths, forks, threads that no Ctrl-C reaches."""
