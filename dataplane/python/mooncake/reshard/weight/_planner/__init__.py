"""The planner's parts: `api` makes plans, `plan` and `contracts` are what they consist of."""
