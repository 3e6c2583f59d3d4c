"""Texts of the page's panels for memory, skills, servers, models, people, settings and logins."""

from typing import Final

from rumi.texts import Text

PANEL_WORDS: Final[dict[str, Text]] = {
    "about_state": Text("State"),
    "add": Text("Add"),
    "before": Text("Before"),
    "change": Text("Change"),
    "copy_command": Text("Copy the command"),
    "demo_about": Text(
        "This chat uses the demo model. It is no language model: it understands a few requests and "
        "shows what Rumi does with them."
    ),
    "demo_way": Text(
        "For a real one, run this where Rumi is installed. It asks which provider you want and where "
        "you get a key, and it also finds models that run on your own computer."
    ),
    "fact_changed": Text("Changed"),
    "fact_chat": Text("Chat"),
    "fact_from": Text("From"),
    "fact_history": Text("History"),
    "fact_history_of": Text("History of {key}"),
    "fact_key": Text("What it is about"),
    "fact_key_hint": Text("A few words, such as: dentist"),
    "fact_noticed": Text("noticed in a conversation"),
    "fact_outside": Text("from outside"),
    "fact_said": Text("told to Rumi"),
    "fact_since": Text("Stored"),
    "fact_tainted": Text("noticed while reading files or web pages; check it"),
    "fact_value": Text("What Rumi shall remember"),
    "fact_value_hint": Text("Several values stand in lines of their own."),
    "forget_about": Text("What was replaced earlier is forgotten too. The conversations stay."),
    "forget_everything": Text("Forget everything…"),
    "forget_everything_about": Text(
        "This deletes all that is stored about you: facts, conversations, recordings, schedules, tasks, the "
        "browser's profile, and logins at servers of tools. Files stay. Nobody can bring it back."
    ),
    "forget_sure": Text("Forget {key}?"),
    "forget_word": Text("forget everything"),
    "forgotten": Text("Forgotten: {key}"),
    "forgotten_everything": Text("Everything about you is deleted."),
    "from_to": Text("{from} to {to}"),
    "group_agent": Text("Work"),
    "group_budget": Text("Budgets"),
    "group_chat": Text("Chats and messages"),
    "group_general": Text("General"),
    "group_other": Text("Other"),
    "group_record": Text("Recordings"),
    "group_session": Text("Sessions"),
    "group_tasks": Text("Tasks"),
    "group_terminal": Text("Terminal"),
    "group_undo": Text("Undo"),
    "group_voice": Text("Voice"),
    "key_command": Text("key from a command"),
    "key_missing": Text("no key: {variable} is not set"),
    "key_not_needed": Text("needs no key"),
    "key_set": Text("key set"),
    "key_unreadable": Text("the key cannot be read"),
    "lists": Text("Lists of this chat"),
    "logged_out": Text("Logged out: {name}"),
    "login_about": Text(
        "Open this link in the other browser, or scan the code with a phone. It works once, for "
        "{minutes} minutes. Whoever opens it can do all that you can do here."
    ),
    "login_code": Text("Or type this code there:"),
    "login_copy": Text("Copy the link"),
    "login_new": Text("Log in another browser"),
    "login_qr": Text("QR code of the login link"),
    "login_times": Text("Logged in {created} · last used {seen}"),
    "login_unknown": Text("Unknown browser"),
    "logins": Text("Logins"),
    "logins_about": Text(
        "These browsers can use this page. A login ends by itself 30 days after its last use."
    ),
    "logout_one": Text("Log out"),
    "logout_one_about": Text("That browser needs a new link to come in again. Nothing else changes."),
    "logout_one_sure": Text("Log out {name}?"),
    "logout_others": Text("Log out all others"),
    "logout_others_sure": Text("Log out all other browsers?"),
    "may_all": Text("May do everything, also change what others have."),
    "may_bots": Text("May start bots."),
    "may_bots_most": Text("May have {count} bots at work."),
    "may_bots_none": Text("May start no bots."),
    "may_default_model": Text("Uses the usual model."),
    "may_models": Text("May use these models: {models}"),
    "may_no_tools": Text("Rumi uses no tools for them."),
    "may_not_change": Text("Changes no files."),
    "may_schedules": Text("May have schedules and reminders."),
    "may_schedules_most": Text("May have {count} schedules and reminders."),
    "may_schedules_none": Text("May have no schedules or reminders."),
    "may_spend_tokens_day": Text("Up to {count} tokens a day."),
    "may_spend_tokens_month": Text("Up to {count} tokens a month."),
    "may_spend_usd_day": Text("Up to {count} US dollars a day."),
    "may_spend_usd_month": Text("Up to {count} US dollars a month."),
    "may_talk": Text("May talk to Rumi, with a memory and files of their own."),
    "may_tools": Text("Rumi uses only these tools for them: {tools}"),
    "may_tools_all": Text("Rumi may use all its tools for them."),
    "memory": Text("Memory"),
    "memory_about": Text("What Rumi remembers about you, in all chats."),
    "memory_add": Text("Add a fact"),
    "memory_edit": Text("Edit {key}"),
    "memory_empty": Text(
        "Rumi remembers nothing about you yet. Facts come from what you say, such as “remember that I "
        "eat no nuts”."
    ),
    "memory_search": Text("Search the memory"),
    "model_answers": Text("answered in {seconds} s"),
    "model_context": Text("{count} tokens of context"),
    "model_demo": Text("the demo model: needs no key, understands little"),
    "model_fails": Text("no answer: {why}"),
    "model_here": Text("this chat"),
    "model_key_about": Text(
        "A key never passes through this page. This command asks for it where Rumi is installed:"
    ),
    "model_other": Text("Another model"),
    "model_other_hint": Text("The provider and the model's name, as the provider writes it."),
    "model_pictures": Text("sees pictures"),
    "model_price": Text("${input} in, ${output} out per million tokens"),
    "model_test": Text("Test whether it answers"),
    "model_testing": Text("testing…"),
    "model_use": Text("Use in this chat"),
    "model_used": Text("This chat now uses {model}."),
    "models": Text("Models"),
    "models_about": Text("Which model answers in this chat. Other chats keep theirs."),
    "models_others": Text("More models"),
    "models_ready": Text("Models that are set up"),
    "models_search": Text("Search the models"),
    "people": Text("People"),
    "people_about": Text(
        "Who may talk to Rumi over Telegram. Each has chats, a memory and budgets of their own."
    ),
    "people_empty": Text("Only you use this Rumi. Add the people who may talk to it over Telegram."),
    "people_wait": Text("Changes count after Rumi's next start."),
    "person_add": Text("Add a person"),
    "person_change": Text("Change {name}"),
    "person_ids": Text("Telegram ids"),
    "person_ids_hint": Text(
        "Numbers. People who write to your Telegram bot and are not on the list get their number as "
        "the answer."
    ),
    "person_ids_wrong": Text("Enter numbers, separated by commas."),
    "person_name": Text("Name"),
    "person_name_hint": Text("Letters, digits, - and _"),
    "person_owner": Text("the owner of this Rumi: may do everything"),
    "person_remove_about": Text(
        "They can talk to Rumi until its next start. What is stored about them stays."
    ),
    "person_remove_sure": Text("Remove {name}?"),
    "person_unnamed": Text("listed in the settings of Telegram"),
    "remove": Text("Remove"),
    "role": Text("Role"),
    "role_hint": Text("What each role may do stands below the list of people."),
    "roles": Text("What each role may do"),
    "saved": Text("Saved."),
    "saved_for_start": Text("Saved. It counts after Rumi's next start."),
    "server_accept": Text("Accept these tools"),
    "server_accepted": Text("The tools of {name} are accepted."),
    "server_add": Text("How to add a server"),
    "server_add_about": Text(
        "A server is a program, and may need secrets. Neither passes through this page: add it in a "
        "terminal where Rumi is installed, by its command or by its address."
    ),
    "server_add_after": Text("Then start Rumi again, test the server here and read what its tools say."),
    "server_counts": Text("{tools} tools · {calls} calls · {failures} failed"),
    "server_failed": Text("does not work"),
    "server_ready": Text("works"),
    "server_refused": Text("It asked for {host} ({times} times) and may not reach it."),
    "server_rests": Text("rests until it is needed"),
    "server_starting": Text("is starting"),
    "server_stopped": Text("not started yet"),
    "server_test": Text("Test it and read its tools"),
    "server_testing": Text("Connecting to the server and asking for its tools…"),
    "server_tools": Text("Tools"),
    "server_waits": Text("{count} tools wait until you have read them"),
    "server_waits_one": Text("1 tool waits until you have read it"),
    "server_withheld": Text("Held back"),
    "server_login": Text("Login"),
    "server_logged_in": Text("logged in"),
    "server_needs_login": Text("needs login"),
    "server_works": Text("The server works; {count} tools are accepted."),
    "servers": Text("Servers of tools"),
    "servers_about": Text(
        "Programs that bring Rumi further tools (MCP). Rumi uses a tool only as it was when you accepted it."
    ),
    "servers_empty": Text(
        "There is no server yet. A server brings tools, such as a calendar or a ticket system."
    ),
    "setting_default": Text("Default: {value} ({name})"),
    "setting_none": Text("none"),
    "setting_reset": Text("Back to the default"),
    "setting_variable": Text(
        "The variable {variable} sets this where Rumi is started, so it cannot be changed here."
    ),
    "setting_waits": Text("Waits for the next start; until then: {value}"),
    "settings_wait": Text("Some changes wait for Rumi's next start."),
    "since": Text("since {time}"),
    "skill_bundled": Text("comes with Rumi"),
    "skill_dirs": Text("from a folder of the settings"),
    "skill_files": Text("Files"),
    "skill_from": Text("From"),
    "skill_hides": Text("Hides"),
    "skill_hides_about": Text("a skill of the same name from elsewhere"),
    "skill_home": Text("installed by you"),
    "skill_license": Text("Licence"),
    "skill_may": Text("It may"),
    "skill_may_code": Text("give instructions to Rumi, and run its own program in Rumi's sandbox."),
    "skill_may_words": Text("give instructions to Rumi. It has no program of its own."),
    "skill_needs": Text("It uses: {tools}."),
    "skill_of_folder": Text("of the folder"),
    "skill_off": Text("off"),
    "skill_off_environment": Text("Off: a variable of the environment says so where Rumi is started."),
    "skill_off_itself": Text("Off: the skill's own file says so."),
    "skill_on": Text("on"),
    "skill_place": Text("Folder"),
    "skill_project": Text("from the folder that you named"),
    "skill_switch": Text("Use the skill {name}"),
    "skill_text": Text("Text of the skill"),
    "skill_trust": Text("Trust it…"),
    "skill_trust_about": Text(
        "Trust counts for the skill as it is now. If a file of it changes, it waits for you again. "
        "This is its whole text:"
    ),
    "skill_trust_sure": Text("Trust the skill {name}?"),
    "skill_trust_yes": Text("Trust it"),
    "skill_trusted": Text("The skill {name} is trusted."),
    "skill_untrusted": Text("waits for your trust"),
    "skill_version": Text("Version"),
    "skills": Text("Skills"),
    "skills_about": Text(
        "Instructions that Rumi reads when a request fits them. A switch counts from the next message on."
    ),
    "skills_empty": Text(
        "There is no skill. A skill is a folder with a file SKILL.md, in the folder “skills” of Rumi's home."
    ),
    "skills_folder": Text("Folder of the project"),
    "skills_folder_hint": Text(
        "The whole path, such as /home/me/project. Rumi uses its skills when it works in that folder."
    ),
    "skills_look": Text("Show its skills"),
    "skills_of_folder": Text("Skills of a project"),
    "tool_changed": Text("Changed since you accepted it:"),
    "tool_changes": Text("may change things"),
    "tool_destroys": Text("may destroy things"),
    "tool_gone": Text("The tool {name} is no longer there."),
    "tool_reads": Text("only reads"),
    "tool_reads_outside": Text("only reads, also outside of this machine"),
    "tool_unusable": Text("cannot be used"),
    "tools_accepted": Text("Accepted tools ({count})"),
    "type_word": Text("Type: {word}"),
    "used_today": Text("today {tokens} tokens, ${usd}"),
}
