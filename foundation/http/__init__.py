"""The one HTTP client, for banks, webhooks and text messages.

Each request has one absolute deadline. A host's name is resolved once for each new connection, every address is
checked, and the connection goes to a checked one. Redirects are not followed. Proxy variables and netrc are not read.
"""
