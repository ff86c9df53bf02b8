"""Stands in for SGLang, so that manifests run unchanged without a GPU and gigabytes of packages."""
