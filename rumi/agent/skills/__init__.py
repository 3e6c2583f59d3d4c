"""Skills: folders with a `SKILL.md` that teach the assistant new ways of working, some with code.

`format` and `front_matter` parse a `SKILL.md`, `finding` finds the folders of skills, `catalogue` loads them,
and `actor` answers requests about them. `running` runs a code skill in a separate process; `process` and
`context` are the code in that process. `mounting` maintains the copies of skills that sandboxes see.
`disabled` and `trust` store the users' decisions about skills. `creating` creates new skills, and `trying`
runs skills in tests.
"""
