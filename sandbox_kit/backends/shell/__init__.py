"""Files and commands over a POSIX shell that runs elsewhere, spoken to over any duplex byte stream."""
