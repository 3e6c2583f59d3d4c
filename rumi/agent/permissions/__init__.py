"""Permission checks for tool calls: the only code that decides if a call may run.

A call passes these checks in order:

1. `rights`: the role of the requesting person must allow the tool.
2. `intent`: the changing calls that the message asks for are declared before untrusted content is read.
3. `gate`: after untrusted content was read, a call with effects needs consent.
4. `consent`, `action_words`, `destinations`: the user's message may give consent; otherwise Rumi asks.
5. `carried`: a call that would send too much information out to a server needs consent as well.
6. `parking`: if no person can answer now, the call waits for later approval.
"""
