"""Work with files and commands in an isolated workspace, under an operator's rules."""
