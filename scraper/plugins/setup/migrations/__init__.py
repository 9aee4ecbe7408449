"""The history of the tables of the plug-in `setup`."""
