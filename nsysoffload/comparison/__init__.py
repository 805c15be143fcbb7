"""Reports -> what changed from a base run to others, why, and whether it is more than noise."""
