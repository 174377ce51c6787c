"""Formats of workflow files, by platform: `table.FORMATS` holds them by name, each a `format.Format`."""
