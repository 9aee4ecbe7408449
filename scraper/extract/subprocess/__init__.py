"""Pages that may take long, read in a process of their own: who asks, what is said, who reads."""
