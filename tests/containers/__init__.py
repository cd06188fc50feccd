"""Sandboxes in containers, on a real engine."""
