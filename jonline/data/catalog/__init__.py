"""The data sets that the library knows by name, and how they are fetched."""
