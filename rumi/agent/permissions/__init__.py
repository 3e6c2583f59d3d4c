"""The one place that decides if a tool call may run.

A call passes, in this order:

1. `rights`: the role of the person who asks must allow the tool.
2. `intent`: the changing calls that the message asks for are declared before anything untrusted is read.
3. `gate`: once untrusted text was read, a call that acts needs consent.
4. `consent`, `action_kinds`, `destinations`: the user's own words may give it; otherwise a question is asked.
5. `carried`: a call that would carry too much untrusted text out to a server is asked about as well.
6. `parking`: where nobody can answer now, the call waits for a later yes.
"""
