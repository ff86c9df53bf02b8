"""A whole cluster on loopback that serves a multi-turn LLM workload, with every byte checked."""
