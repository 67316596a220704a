"""Jobs as their users write them, one family a file. registry.py collects them."""
