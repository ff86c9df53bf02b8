"""`python -m mooncake.cli_client`: a node that lends its memory, as `mooncake_client`."""

from .cli import mooncake_client as main

if __name__ == "__main__":
    main()
