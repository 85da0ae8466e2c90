"""The adapters of the banks. The manual of each is `docs/banks/<name>.md`."""
