"""Refuses `import mooncake.store` while another package's compiled modules would be loaded instead of Perigee's.

Python prefers `store.so` to the `store.py` beside it, so a wheel of Mooncake in the same folder wins in silence, whichever came last.
`perigee-mooncake.pth` imports this module at each start of an interpreter, because `mooncake/__init__.py` may be the other one's.
"""

from __future__ import annotations

import sys

#: Modules that Mooncake has as compiled ones.
GUARDED = ("mooncake.store", "mooncake.engine")
#: Ours, and in no other package.
OWN_MODULE = "_perigee."


class Guard:
    """A finder that finds nothing. It stands before the others, so it sees a module before they load it."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        """Return None, or raise ImportError for a guarded module that is not ours."""
        if name in GUARDED:
            for folder in path or ():
                _refuse_foreign(name, folder)


def _refuse_foreign(name: str, folder: str) -> None:
    import os

    try:
        files = sorted(os.listdir(folder))
    except OSError:
        return
    stems = tuple(f"{guarded.rpartition('.')[2]}." for guarded in GUARDED)
    foreign = [file for file in files if file.startswith(stems) and file.endswith(".so")]
    if not foreign or not any(file.startswith(OWN_MODULE) for file in files):
        return
    owner = _owner(os.path.dirname(folder), foreign[0])
    raise ImportError(
        f"{name} is not Perigee's: {' and '.join(foreign)} of {owner} in {folder} would be loaded instead; run "
        f"`pip uninstall {owner}` and then `pip install --force-reinstall --no-deps perigee-mooncake`",
        name=name,
    )


def _owner(site: str, file: str) -> str:
    """Name of the distribution that has installed `mooncake/FILE`."""
    from importlib import metadata

    for distribution in metadata.distributions(path=[site]):
        if any(str(one) == f"mooncake/{file}" for one in distribution.files or ()):
            return distribution.metadata["Name"]
    return "mooncake-transfer-engine"


sys.meta_path.insert(0, Guard)
