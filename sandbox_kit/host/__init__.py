"""This process and the host's file system: descriptors, paths pinned against links, forks, threads that no Ctrl-C reaches."""
