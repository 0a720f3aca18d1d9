"""`python -m fastprod`: the same as the command `fastprod`."""

from fastprod.cli.entry import main

if __name__ == "__main__":
    main()
