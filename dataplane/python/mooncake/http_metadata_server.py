"""`python -m mooncake.http_metadata_server`: the stand-alone metadata service.

The service itself is the bundled program; this module only starts it, with the same options.
"""

from .cli import mooncake_http_metadata_server as main

if __name__ == "__main__":
    main()
