"""Several implementations of `mooncake.store` driven alternately on one machine, and a table of their ratios."""
