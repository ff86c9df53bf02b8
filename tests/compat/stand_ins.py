"""Names of Mooncake that its tests import for their own use: a plugin of pytest."""

import sys
import types


def _strict_zip(*columns):
    """Zip columns of the same length."""
    return zip(*columns, strict=True)


# Tests of reshard zip with it, because Python 3.9 cannot.
sys.modules["mooncake.reshard._compat"] = types.ModuleType("mooncake.reshard._compat")
sys.modules["mooncake.reshard._compat"]._strict_zip = _strict_zip
