"""Links the offers of all shops that sell one product."""
