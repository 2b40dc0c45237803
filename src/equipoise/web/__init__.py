"""The dashboard: a page and its data, handed to the dispatcher by the command."""
