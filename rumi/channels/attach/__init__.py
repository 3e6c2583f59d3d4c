"""Attached clients: front ends in other processes that use the daemon's chats over the control socket.

    attached client                            daemon
    {"stream":"window", "version":1, …}     →
                                          ←    {"opened": {…}}, or {"error": …, "code": …}
    {"do":"send", "id":1, "text":…}       →
                                          ←    {"done":1, "number":17}, or {"done":1, "error": …}
                                          ←    {"event": {…}}, each event of the chat
    {"do":"model", "id":2, "name":…}      →
                                          ←    {"done":2, "model":…}, or {"done":2, "error": …}
    {"do":"undelivered" | "recent", …}    →
    {"do":"shown" | "unasked" | "delivered", …} →
                                          ←    {"moved": true}: attach again, another worker serves the chat

`rumi.channels.control.attach_server` is the daemon's side, `attach` in `client` the client's side;
`rumi.chats.events` defines the events on the wire. When a program's client disconnects for any reason, the
turn that it started is stopped; a person's turn continues. When the daemon ends, its clients attach to the
next one: `ReconnectingChat` is a chat over successive daemons. A file is uploaded over its own connection:
see `file_upload`. The events buffered for a slow client are bounded like those of every subscriber, and delay
no other client. `rumi.channels.control` also has the stream `events` of the whole process, and the stream
`task`, which runs or follows one task.
"""
