"""Many sessions under one operator: the policy, and the files that sessions leave."""
