"""`python -m mooncake.cli_bench`: transfers between two engines, as `transfer_engine_bench`."""

from .cli import transfer_engine_bench as main

if __name__ == "__main__":
    main()
