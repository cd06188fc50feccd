"""grep: one dialect, external programs as an index, and a search of the library's own."""
