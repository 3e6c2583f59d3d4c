"""Permission checks for tool calls: the checks, in the order in which they are made, and their modules.

Before a turn (`rumi.chats.people.people.People`, with the roles in `rights`):

1. `People.refusal`: the sender's role must allow the message or the chat command (`rights.may_do`).
2. `People.tools`: the turn gets the tools that the role allows (`Rights.may_use`). The others are withheld: a
   call to a withheld tool returns the refusal. Tasks use `People.tools_of_task`.

For each call, in `rumi.agent.acting.Acting`:

3. The arguments must be complete JSON without a secret of this installation, and the turn must have the tool.

For each call, in `gate.Gate.refusal`; the first step that decides ends the check:

4. An untainted turn runs the call. A turn is tainted if its history or its prompt shows content from outside,
   or once a result does (`ToolResult.tainted`). Tools with `AlwaysAsks` skip this step: `start_bot`, the
   proposal of a bot's plan, and `web_fetch` beside such a plan.
5. `Tool.question`: a call that cannot do harm has no question, and runs.
6. `Parking.allowed` (`parking`): the call runs if a person has approved exactly this call before. A yes holds
   once.
7. After three noes in a row, or one question without an answer, the call is refused and nothing more is
   asked.
8. The call runs if the user's own words in the message of this turn ask for it:

   - A tool of the program: each value that the question names as `consent` is in the message (`consent`).
   - A tool of an MCP server that only reads: its arguments carry little data out of this turn (`carried`).
   - A tool of an MCP server that changes something: the message names the action (`action_words`) and every
     value (`consent`), unless the server says that the tool destroys something. Or `intent` covers the call:
     a yes of this turn for the same destinations (`destinations`), or a declaration that was made before
     anything was read (`declare`; if there is none, by one model call that sees only the message and the
     tools).

9. A question that is too long for a person to judge is refused.
10. If nobody can answer during the turn, `parking` stores the call and the chat asks when the turn has ended.
    Without parking the call is refused.
11. A person is asked. A yes runs the call and resets the counts of steps 7 and 8. A no, no answer in time, or
    nobody to ask refuses it.

After the gate, a tool still refuses what it never does: `rumi.sandbox.policy` judges command lines,
`rumi.web.guard` judges addresses, and an MCP tool whose description has changed waits to be accepted again. A
call that a tool makes (the code of a skill) passes steps 3 to 11 too. `Gate.note_result` then records the
taint, the addresses and the text of each result for the calls that follow.
"""
