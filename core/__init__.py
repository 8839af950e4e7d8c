"""The vocabulary that every room shares: errors, records, atomic files, commands, environment."""
