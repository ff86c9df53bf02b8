"""Parts of the REST service of the store."""
