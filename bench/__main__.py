"""`python -m bench`, which is `make bench`."""

from bench.run import main

main()
