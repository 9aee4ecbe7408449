"""The commands of the plug-in."""
