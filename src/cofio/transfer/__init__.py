"""Export, import, backup, restore and copies of stores."""
