"""Pictures of the tables in `bench/results`."""
