"""Skills: folders with a `SKILL.md` that teach the assistant new ways of working, some with code.

`format` and `front_matter` read them, `catalogue` knows which there are, `actor` answers for it. `running`
runs a code skill in a process of its own, which `process` and `context` are; `mounting` keeps the copies that
sandboxes see. `disabled` and `trust` store people's decisions about skills; `creating` makes new ones, and
`trying` runs them in their tests.
"""
