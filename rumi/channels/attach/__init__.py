"""Windows: terminals of other processes on this one's chats, over the control socket.

    window                                     the process that holds the home
    {"stream":"window", "version":1, …}     →
                                          ←    {"opened": {…}}, or {"error": …, "code": …}
    {"do":"send", "id":1, "text":…}       →
                                          ←    {"done":1, "number":17}, or {"done":1, "error": …}
                                          ←    {"event": {…}}, as the chat tells them
    {"do":"model", "id":2, "name":…}      →
                                          ←    {"done":2, "model":…}, or {"done":2, "error": …}
    {"do":"undelivered" | "recent", …}    →
    {"do":"shown" | "unasked" | "delivered", …} →
                                          ←    {"moved": true}: open once more, another worker serves it

`Windows` is the holder's side of it, `attach` the window's; `rumi.chats` has what an event looks like on the
way. When a program's window goes, however it does, the turn that it began is stopped; a person's goes on.
When the holder ends, its windows attach to the next one: `LastingChat` is a chat over one process after the
other. A file goes over a connection of its own: see `handing`. What a window is too slow to take is bounded
as for everybody who listens, and delays nobody. `live` is what happens in the whole process, `task_stream`
runs or follows one task.
"""
