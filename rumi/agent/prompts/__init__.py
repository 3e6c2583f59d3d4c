"""What a prompt consists of: which part comes from where, in the order in which a model reads them.

A chat's turn (`rumi.chats.context.ChatContext.turn_input`, called by `rumi.chats.worker`):

1. System message, first part: `files/identity.md` and `files/sandbox.md`, joined by
   `prompts.Prompts.instructions`. It is made once per process (`rumi.app.parts.agent`) and is the same for
   all chats, so that servers cache it.
2. System message, second part: the whole note of the session (`prompt_notes.whole_note`), which
   `ChatContext.what_is_known` has collected: the form of answers in the channel (`files/terminal.md`,
   `telegram.md`, `page.md`), the skills (`rumi.agent.skills.prompt`), the facts (`rumi.memory.block`), the
   date.
3. The summary of earlier exchanges, if there is one (`rumi.chats.summing.shown`).
4. The history (`prompt_notes.shown`): a note on what has changed since the whole note stands before the words
   of its turn. `rumi.agent.fitting.complete` adds a result to each call that has none.
5. The message of this turn (`message_entries`): words and files of others in marked blocks, then the user's
   words.
6. What the turn adds (`rumi.agent.turn`): replies, results cut to the token budget (`rumi.models.fitting`),
   and notes of the breakers (`rumi.agent.breakers`).

Beside the messages, a request has the descriptions of the tools (`Tool.spec`; `rumi.app.toolbox` lists the
tools). `rumi.web.readers.files.viewer` adds the bytes of pictures. Last, `rumi.models.chain` cuts the request
to the budget of the model that answers, and a protocol (`rumi.models.wire`, `anthropic`, `ollama`) writes it.

Each prompt of a session begins with the complete previous one, until a summary or a cut makes a new beginning
(`rumi.chats.session`).

Other prompts have their own instructions, and steps 5 and 6 of a turn where they run one:

- research: `rumi.tasks.research.web` and `rumi.tasks.research.kinds`, words in `rumi/tasks/research/prompts/`
- an iteration of a bot: `rumi.tasks.bots.prompt`, called by `rumi.tasks.bots.kind`; words in
  `rumi/tasks/bots/prompts/`
- the changes that a message declares: `files/intent.md`, in `rumi.agent.permissions.intent`
- a summary: `rumi.chats.summary_text`, in `rumi.chats.summing`
- facts from a session: `rumi.memory.extractor`

A home may replace each word file by one of the same name in its `prompts/` (`rumi.app.settings.prompts_of`).
"""
