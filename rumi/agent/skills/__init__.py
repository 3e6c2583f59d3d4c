"""Skills: folders with a `SKILL.md` that teach the assistant new ways of working, some with code.

`format` and `front_matter` parse a `SKILL.md`, `catalogue` finds the installed skills, and `actor` answers
requests about them. `running` runs a code skill in its own process, which consists of `process` and
`context`; `mounting` maintains the copies that sandboxes see. `disabled` and `trust` store the users'
decisions about skills; `creating` creates new skills, and `trying` runs them in tests.
"""
