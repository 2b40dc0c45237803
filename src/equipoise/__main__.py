"""`python -m equipoise` is the command `equipoise`."""

from .cli.main import main

if __name__ == "__main__":
    main()
