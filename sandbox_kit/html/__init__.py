"""What a notebook shows, as HTML: pure text in, tidy markup out, for light pages and dark ones."""
