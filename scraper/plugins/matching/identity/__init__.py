"""What identifies a product across shops. Pure."""
