"""`python -m nearmt` is the command `nearmt`."""

from nearmt.cli import main

main()
