"""HTTP servers: their sockets, the server (hypercorn, on trio), and the listener for other machines.

The listener accepts deliveries from other servers, such as webhook calls, and serves the health and the
metrics of this process.
"""
