"""The tables of the ITRA paper (AAAI 2023): what is run, how it is run, and what came out."""
