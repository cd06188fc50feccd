"""The shell that stays, and the files behind it."""
