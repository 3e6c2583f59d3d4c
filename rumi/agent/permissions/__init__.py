"""Permission checks for tool calls. This is the list of checks, in the order in which they are made.

Before a turn (`rumi.chats.people.people.People`, with the roles in `rights`):

1. `People.refusal`: the sender's role must allow the message or the chat command (`rights.may_do`).
2. `People.tools`: the turn gets the tools that the role allows (`Rights.may_use`). The others are withheld: a
   call to a withheld tool returns the refusal. Tasks use `People.tools_of_task`.

For each call, in `rumi.agent.acting.Acting`:

3. The arguments must be complete JSON without a secret of this installation, and the turn must have the tool.

For each call, in `gate.Gate.refusal`; the first step that decides ends the check:

4. An untainted turn runs the call. A turn is tainted if its history or its prompt contains content from files
   or the web, or once a result does (`ToolResult.tainted`). This step does not apply to `AlwaysAsks` tools:
   `start_bot`, the proposal of a bot's plan, `web_fetch` next to such a plan, `browser_click` and
   `browser_fill`.
5. `Tool.question`: a call that cannot do harm has no question, and runs.
6. `Parking.allowed` (`parking`): the call runs if a person has approved exactly this call before. An approval
   is valid once. In a bot's turn, a call that its plan covers runs as well; in a run of a schedule, one that
   its `standing` approval covers (`Question.reach`). Each use is counted before the call.
7. After three rejections in a row, or one unanswered question, the call is refused without a question.
8. The call runs if the user's own words in the message of this turn ask for it:

   - A built-in tool: the message contains each value that the question names as `consent` (`consent`).
   - A tool of an MCP server that only reads: its arguments carry little data out of this turn (`carried`).
   - A tool of an MCP server that changes something: the message names the action (`action_words`) and every
     value (`consent`), unless the server says that the tool destroys something. Or `intent` covers the call:
     an approval in this turn for the same destinations (`destinations`), or a declaration that was made
     before the turn read untrusted content (`declare`). If there is no declaration, one model call that sees
     only the message and the tools makes it.

9. A question that is too long for a person to judge is refused.
10. If nobody can answer during the turn, `parking` stores the call and the chat asks when the turn has ended.
    Without `parking`, the call is refused.
11. A person is asked. After a yes, the call runs and the counts of steps 7 and 8 are reset. After a no,
    without an answer in time, or with nobody to ask, the call is refused.

After the gate, a tool can still refuse a call: `rumi.sandbox.policy` checks command lines, `rumi.web.guard`
checks addresses, and an MCP tool whose description has changed must be accepted again. A call that
a tool makes (the code of a skill) passes steps 3 to 11 too, as does a call of a delegate, whose turn shares
the gate of the turn that it works for. `Gate.note_result` then records the taint, the addresses and the text
of each result for the calls that follow.
"""
