"""`python -m rumi`."""

from rumi.cli import main

if __name__ == "__main__":
    main()
