"""HTTP servers: the sockets, the server itself (hypercorn, on trio), and the listener for machines.

The listener accepts deliveries from other servers, and serves the health and the metrics of the process.
"""
