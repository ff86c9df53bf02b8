"""Structured objects: mappings of arrays, tensors and rows as bundles of objects in a store.

A bundle is a manifest, a metadata object and one payload per member. `writer`, `reader` and
`bundles` move bytes, `fields` and `members` know arrays and tensors, `codecs` turns rows of Python
values into arrays, `stages` keeps batches of named fields, and `transfer` is what a caller uses.
"""
