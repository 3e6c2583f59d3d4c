"""What the bot asks about itself: its updates, its commands, its files, its webhook."""

import re
from typing import Any

from tests.fakes.bot_api_chats import Chats
from tests.fakes.bot_api_params import Params
from tests.fakes.bot_api_text import utf16_length
from tests.fakes.bot_api_updates import Poll
from tests.fakes.bot_api_world import Json, Refused

DOWNLOAD_LIMIT = 20 * 1024 * 1024
COMMAND_LIMIT = 100
TOAST_LIMIT = 200
QUERY_S = 900
"""How long a press may be answered."""

WEBHOOK = (
    "Conflict: can't use getUpdates method while webhook is active;"
    " use deleteWebhook to delete the webhook first"
)
SCOPES = {
    "default": (),
    "all_private_chats": (),
    "all_group_chats": (),
    "all_chat_administrators": (),
    "chat": ("chat_id",),
    "chat_administrators": ("chat_id",),
    "chat_member": ("chat_id", "user_id"),
}
_COMMAND = re.compile(r"[a-z0-9_]{1,32}")
_LANGUAGE = re.compile(r"[a-z]{2}")
_SECRET = re.compile(r"[A-Za-z0-9_-]{0,256}")

Scope = tuple[str, ...]


class Account:
    """The methods that are about no chat. `commands` is what was set, by scope and language.

    `answers` are the statuses that the webhook answered, 0 where it could not be reached.
    """

    def __init__(self, chats: Chats) -> None:
        self._chats = chats
        self.webhook = ""
        self.secret = ""
        self.last_error = ""
        self.answers: list[int] = []
        self.commands: dict[tuple[Scope, str], list[Json]] = {}
        self.methods = {
            "getMe": self.get_me,
            "getUpdates": self.get_updates,
            "getFile": self.get_file,
            "setMyCommands": self.set_commands,
            "getMyCommands": self.get_commands,
            "deleteMyCommands": self.delete_commands,
            "setWebhook": self.set_webhook,
            "deleteWebhook": self.delete_webhook,
            "getWebhookInfo": self.webhook_info,
            "answerCallbackQuery": self.answer_query,
        }

    def get_me(self, _: Params) -> Json:
        abilities = {
            "can_join_groups": True,
            "can_read_all_group_messages": not self._chats.privacy,
            "supports_inline_queries": False,
            "can_connect_to_business": False,
            "has_main_web_app": False,
        }
        return {**self._chats.bot.json(), **abilities}

    def get_updates(self, params: Params) -> list[Json] | Poll:
        if self.webhook:
            raise Refused(409, WEBHOOK)
        allowed = params.structure("allowed_updates")
        if allowed is not None and not isinstance(allowed, list | tuple):
            raise Refused(400, "Bad Request: can't parse allowed updates: expected an Array")
        limit = min(max(params.integer("limit", 100), 1), 100)
        timeout_s = max(0, params.integer("timeout"))
        return self._chats.updates.get(params.integer("offset"), limit, timeout_s, allowed)

    def get_file(self, params: Params) -> Json:
        file = self._chats.files.get(params.text("file_id"))
        if file is None:
            raise Refused(400, "Bad Request: wrong file_id or the file is temporarily unavailable")
        if file.size > DOWNLOAD_LIMIT:
            raise Refused(400, "Bad Request: file is too big")
        told = {"file_id": file.id, "file_unique_id": f"u{file.id}", "file_size": file.size}
        return {**told, "file_path": file.path}

    def set_commands(self, params: Params) -> bool:
        commands = params.structure("commands")
        if not isinstance(commands, list | tuple):
            raise Refused(400, "Bad Request: can't parse commands: expected an Array of BotCommand")
        if len(commands) > COMMAND_LIMIT:
            raise Refused(400, "Bad Request: BOT_COMMANDS_TOO_MUCH")
        for command in commands:
            if not isinstance(command, dict) or not _COMMAND.fullmatch(str(command.get("command", ""))):
                raise Refused(400, "Bad Request: BOT_COMMAND_INVALID")
            if not 1 <= len(str(command.get("description", "")).strip()) <= 256:
                raise Refused(400, "Bad Request: BOT_COMMAND_DESCRIPTION_INVALID")
        self.commands[self._scope(params)] = [
            {"command": command["command"], "description": command["description"]} for command in commands
        ]
        return True

    def get_commands(self, params: Params) -> list[Json]:
        return self.commands.get(self._scope(params), [])

    def delete_commands(self, params: Params) -> bool:
        self.commands.pop(self._scope(params), None)
        return True

    def set_webhook(self, params: Params) -> bool:
        url, secret = params.text("url"), params.text("secret_token")
        local = url.startswith(("http://127.0.0.1:", "http://localhost:"))  # as a server of one's own allows
        if url and not (url.startswith("https://") or local):
            raise Refused(400, "Bad Request: bad webhook: An HTTPS URL must be provided for webhook")
        if not _SECRET.fullmatch(secret):
            raise Refused(400, "Bad Request: secret token contains unallowed characters")
        if (allowed := params.structure("allowed_updates")) is not None:
            self._chats.updates.allowed = frozenset(allowed) or None
        self.webhook, self.secret, self.last_error = url, secret, ""
        if self._chats.updates.poll is not None and self.webhook:
            self._chats.updates.oust("Conflict: terminated by setWebhook request")
        return True

    def delete_webhook(self, params: Params) -> bool:
        self.webhook = ""
        if params.flag("drop_pending_updates"):
            self._chats.updates.drop()
        return True

    def webhook_info(self, _: Params) -> Json:
        waiting = len(self._chats.updates.pending)
        told: Json = (
            {"last_error_date": 1_790_000_000, "last_error_message": self.last_error}
            if self.last_error
            else {}
        )
        if self._chats.updates.allowed is not None:
            told["allowed_updates"] = sorted(self._chats.updates.allowed)
        return {"url": self.webhook, "has_custom_certificate": False, "pending_update_count": waiting, **told}

    def answer_query(self, params: Params) -> bool:
        query = self._chats.queries.get(params.text("callback_query_id"))
        text = params.text("text")
        if query is None or query.toast is not None or query.time < self._chats.now() - QUERY_S:
            why = "query is too old and response timeout expired or query ID is invalid"
            raise Refused(400, f"Bad Request: {why}")
        if utf16_length(text) > TOAST_LIMIT:
            raise Refused(400, "Bad Request: MESSAGE_TOO_LONG")
        query.toast = text
        query.message.chat.events.append(query)
        return True

    def _scope(self, params: Params) -> tuple[Scope, str]:
        scope: Any = params.record("scope") or {"type": "default"}
        kind = scope.get("type")
        if kind not in SCOPES:
            raise Refused(400, "Bad Request: can't parse BotCommandScope: Unsupported type specified")
        for name in SCOPES[kind]:
            if name not in scope:
                raise Refused(400, f"Bad Request: can't parse BotCommandScope: Can't find field \"{name}\"")
        if "chat_id" in SCOPES[kind] and int(scope["chat_id"]) not in self._chats.chats:
            raise Refused(400, "Bad Request: chat not found")
        language = params.text("language_code")
        if language and not _LANGUAGE.fullmatch(language):
            raise Refused(400, "Bad Request: invalid language_code specified")
        return (kind, *(str(scope[name]) for name in SCOPES[kind])), language
