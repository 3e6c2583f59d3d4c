"""Servers of HTTP: the sockets, the server itself (hypercorn, on trio), and the listener for machines.

The listener takes what other servers deliver, and tells of the process's health and its metrics.
"""
