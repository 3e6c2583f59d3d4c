"""The parts of a prompt and their sources, in the order in which a model reads them.

A chat's turn (`rumi.chats.context.ChatContext.turn_input`, called by `rumi.chats.worker`):

1. System message, first part: `files/identity.md` and `files/sandbox.md`, joined by
   `prompts.Prompts.instructions`. It is built once per process (`rumi.app.parts.agent`) and is the same for
   all chats, so that servers can cache it. 2. System message, second part: the full note of the session
   (`prompt_notes.whole_note`), which `ChatContext.what_is_known` has collected: the answer format of the
   channel (`files/terminal.md`, `telegram.md`, `page.md`), the skills (`rumi.agent.skills.prompt`), the facts
   (`rumi.memory.block`), the surroundings (`environment`, collected by `rumi.chats.surroundings`), the date
   and the time. 3. The summary of what the history no longer has, if there is one
   (`rumi.chats.summing.shown`): a model's text with fixed headings, and the program's record of files, the
   todo list and errors (`rumi.agent.compaction`). 4. The history (`prompt_notes.shown`). A note with the
   changes since the full note precedes the messages of the turn that noticed them.
   `rumi.agent.fitting.complete` adds a result to each call that has none. 5. The message of this turn
   (`message_entries`): untrusted text and files in delimited blocks, then the user's own text. 6. The
   messages that the turn adds (`rumi.agent.turn`): replies, results cut to the token budget
   (`rumi.models.fitting`), notes of the breakers (`rumi.agent.breakers`), and Rumi's own requests
   (`rumi.agent.fitting.PROGRAM_REQUESTS`). If they outgrow the budget, old results are shortened; then a
   summary before part 5 replaces parts 3 and 4 and the oldest of these messages (`rumi.agent.fitting`).

In addition to the messages, a request contains the descriptions of the tools (`Tool.spec`; `rumi.app.toolbox`
lists the tools). `rumi.web.readers.files.viewer` adds the bytes of pictures. Finally, `rumi.models.chain`
cuts the request to the budget of the model that answers, and a protocol module (`rumi.models.wire`,
`anthropic`, `ollama`) converts the request to JSON.

Each prompt of a session begins with the complete previous prompt, until a summary or a cut changes the
beginning (`rumi.chats.session`).

Other prompts have different instructions. If they run a turn, parts 5 and 6 apply to them too:

- research: `rumi.tasks.research.web` and `rumi.tasks.research.kinds`, texts in `rumi/tasks/research/prompts/`
- an iteration of a bot: `rumi.tasks.bots.prompt`, called by `rumi.tasks.bots.kind`; texts in
  `rumi/tasks/bots/prompts/`
- the changes that a message declares: `files/intent.md`, in `rumi.agent.permissions.intent`
- a summary: `rumi.agent.compaction.form`, called by `rumi.chats.summing` and by long turns
- facts from a session: `rumi.memory.extractor`

A file in the `prompts/` folder of $RUMI_HOME replaces the built-in text file of the same name
(`rumi.app.settings.prompts_of`).
"""
