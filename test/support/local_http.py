"""TLS for clients of servers on this machine, which speak plain HTTP."""

import ssl

NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Context without certificates; loading those of the system takes 20 ms a client."""
