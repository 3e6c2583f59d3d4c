"""What the bot does in chats: it sends, edits, deletes, drafts. Each is refused where Telegram refuses it."""

import re
from io import BytesIO
from typing import Any

from PIL import Image

from tests.fakes.bot_api_chats import EPOCH, Chats
from tests.fakes.bot_api_params import Params
from tests.fakes.bot_api_rates import Rates
from tests.fakes.bot_api_text import settled
from tests.fakes.bot_api_world import Action, Chat, Document, Draft, Edit, Json, Message, Refused

_ACTION = re.compile(
    "typing|choose_sticker|find_location|upload_(photo|document)|(record|upload)_(video|voice|video_note)"
)
PHOTO_LIMIT = 10 * 1024 * 1024
UPLOAD_LIMIT = 50 * 1024 * 1024
CAPTION_LIMIT = 1024
BUTTON_LIMIT = 100
DELETABLE_S = 48 * 3600
OPTIONS = ("link_preview_options", "disable_notification", "protect_content", "message_effect_id")
NOT_MODIFIED = (
    "Bad Request: message is not modified: specified new message content and reply markup are exactly the"
    " same as a current content and reply markup of the message"
)


class Messages:
    """The methods about messages."""

    def __init__(self, chats: Chats, rates: Rates, *, empty_drafts: bool, strict_nesting: bool) -> None:
        self._chats = chats
        self._rates = rates
        self._empty_drafts = empty_drafts
        self._strict = strict_nesting
        self.without_voice: set[int] = set()  # people who refuse voice messages in their settings
        self.methods = {
            "sendMessage": self.send,
            "sendDocument": self.send_document,
            "sendPhoto": self.send_photo,
            "sendVoice": self.send_voice,
            "editMessageText": self.edit,
            "editMessageReplyMarkup": self.edit_markup,
            "deleteMessage": self.delete,
            "sendChatAction": self.action,
            "sendMessageDraft": self.draft,
        }

    def send(self, params: Params) -> Json:
        chat = self._chat(params)
        text, entities = self._text(params)
        return self._send("sendMessage", chat, params, text, entities)

    def send_document(self, params: Params) -> Json:
        chat = self._chat(params)
        given = params.text("caption")
        caption, entities = self._text(params, "caption", limit=CAPTION_LIMIT) if given else ("", [])
        document = self._document(params)
        content: Json = {}
        if caption:
            content = {"caption": caption, **({"caption_entities": entities} if entities else {})}
        return self._send("sendDocument", chat, params, document=document, content=content)

    def send_photo(self, params: Params) -> Json:
        """Take a picture as Telegram does: up to 10 MB, and neither too large nor too thin."""
        chat = self._chat(params)
        picture = self._document(params, "photo")
        try:
            with Image.open(BytesIO(picture.content)) as image:
                image.load()
                width, height = image.size
        except OSError:
            raise Refused(400, "Bad Request: IMAGE_PROCESS_FAILED") from None
        if len(picture.content) > PHOTO_LIMIT:
            raise Refused(413, "Request Entity Too Large")
        if width + height > 10_000 or max(width, height) > 20 * min(width, height):
            raise Refused(400, "Bad Request: PHOTO_INVALID_DIMENSIONS")
        sizes = [{"file_id": picture.id, "file_unique_id": picture.id, "width": width, "height": height}]
        return self._send("sendPhoto", chat, params, document=picture, content={"photo": sizes})

    def send_voice(self, params: Params) -> Json:
        """Take what Telegram plays as a voice message: Opus in Ogg, MP3 or M4A."""
        chat = self._chat(params)
        sound = self._document(params, "voice")
        if chat.person is not None and chat.person.id in self.without_voice:
            raise Refused(400, "Bad Request: VOICE_MESSAGES_FORBIDDEN")
        if not (sound.content.startswith((b"OggS", b"ID3", b"\xff\xfb")) or sound.content[4:8] == b"ftyp"):
            raise Refused(400, "Bad Request: wrong type of the file")
        voice = {"file_id": sound.id, "file_unique_id": sound.id, "duration": 1, "mime_type": "audio/ogg"}
        return self._send("sendVoice", chat, params, document=sound, content={"voice": voice})

    def edit(self, params: Params) -> Json:
        chat, message = self._own(params)
        if message.document is not None or message.content:
            raise Refused(400, "Bad Request: there is no text in the message to edit")
        text, entities = self._text(params)
        markup = self._markup(params, inline=True)
        if (text, entities, markup) == (message.text, message.entities, message.reply_markup):
            raise Refused(400, NOT_MODIFIED)
        self._rates.take("editMessageText", chat, self._chats.now())
        message.edits.append(Edit(self._chats.now(), message.text, message.entities))
        message.text, message.entities, message.reply_markup = text, entities, markup
        return self._edited(message)

    def edit_markup(self, params: Params) -> Json:
        chat, message = self._own(params)
        markup = self._markup(params, inline=True)
        if markup == message.reply_markup:
            raise Refused(400, NOT_MODIFIED)
        self._rates.take("editMessageReplyMarkup", chat, self._chats.now())
        message.reply_markup = markup
        return self._edited(message)

    def delete(self, params: Params) -> bool:
        chat = self._chat(params)
        message = self._message(chat, params, "message to delete not found")
        if not message.from_bot and chat.person is None:
            raise Refused(400, "Bad Request: message can't be deleted")
        if message.time < self._chats.now() - DELETABLE_S:
            raise Refused(400, "Bad Request: message can't be deleted for everyone")
        self._rates.take("deleteMessage", chat, self._chats.now())
        message.deleted = True
        chat.events.append(("delete", message))
        return True

    def action(self, params: Params) -> bool:
        chat = self._chat(params)
        topic = self._topic(chat, params)
        action = params.text("action")
        if not _ACTION.fullmatch(action):
            raise Refused(400, "Bad Request: wrong parameter action in request")
        self._rates.take("sendChatAction", chat, self._chats.now())
        seen = Action(self._chats.now(), action, topic)
        chat.actions.append(seen)
        chat.events.append(seen)
        return True

    def draft(self, params: Params) -> bool:
        chat = self._chat(params)
        if chat.person is None:
            raise Refused(400, "Bad Request: TEXTDRAFT_PEER_INVALID")
        topic = self._topic(chat, params)
        number = params.integer("draft_id")
        if not number:
            raise Refused(400, "Bad Request: draft_id must be non-zero")
        text, entities = self._text(params, empty=self._empty_drafts)
        self._rates.take("sendMessageDraft", chat, self._chats.now())
        seen = Draft(self._chats.now(), number, text, entities, topic)
        chat.drafts.append(seen)
        chat.events.append(seen)
        return True

    def _send(
        self,
        method: str,
        chat: Chat,
        params: Params,
        text: str = "",
        entities: list[Json] | None = None,
        document: Document | None = None,
        content: Json | None = None,
    ) -> Json:
        topic = self._topic(chat, params)
        reply_to = self._reply(chat, params)
        markup = self._markup(params)
        options = {name: params.structure(name) for name in OPTIONS if name in params.fields}
        self._rates.take(method, chat, self._chats.now())
        message = self._chats.write(chat, self._chats.bot, text, entities, topic, reply_to, content)
        message.reply_markup = markup
        message.document = document
        message.options = options
        chat.events.append(message)
        return message.json()

    def _edited(self, message: Message) -> Json:
        message.edit_date = int(EPOCH + self._chats.now())
        message.chat.events.append(("edit", message))
        return message.json()

    def _chat(self, params: Params) -> Chat:
        given = params.fields.get("chat_id")
        if given is None or given == "":
            raise Refused(400, "Bad Request: chat_id is empty")
        try:
            chat = self._chats.chats.get(int(given))
        except (TypeError, ValueError):
            chat = None
        if chat is None or not chat.started:
            raise Refused(400, "Bad Request: chat not found")
        if chat.migrated_to is not None:
            text = "Bad Request: group chat was upgraded to a supergroup chat"
            raise Refused(400, text, {"migrate_to_chat_id": chat.migrated_to})
        if chat.kicked:
            kind = "supergroup" if chat.kind == "supergroup" else "group"
            raise Refused(403, f"Forbidden: bot was kicked from the {kind} chat")
        if chat.person is not None and chat.person.gone:
            raise Refused(403, "Forbidden: user is deactivated")
        if chat.person is not None and chat.person.blocked:
            raise Refused(403, "Forbidden: bot was blocked by the user")
        return chat

    def _text(self, params: Params, name: str = "text", **how: Any) -> tuple[str, list[Json]]:
        if params.text("parse_mode"):
            raise Refused(400, "Bad Request: unsupported parse_mode")
        entities = params.structure("entities" if name == "text" else f"{name}_entities")
        return settled(params.text(name), entities, strict=self._strict, **how)

    def _topic(self, chat: Chat, params: Params) -> int | None:
        topic = params.integer("message_thread_id")
        if not topic:
            return None
        if topic not in chat.topics:
            raise Refused(400, "Bad Request: message thread not found")
        return topic

    def _reply(self, chat: Chat, params: Params) -> Message | None:
        reply = params.record("reply_parameters")
        if reply is None:
            return None
        if "message_id" not in reply:
            raise Refused(400, "Bad Request: can't parse ReplyParameters: Can't find field \"message_id\"")
        message = chat.by_id.get(reply["message_id"])
        if message is not None and not message.deleted:
            return message
        if reply.get("allow_sending_without_reply"):
            return None
        raise Refused(400, "Bad Request: message to be replied not found")

    def _markup(self, params: Params, *, inline: bool = False) -> Json | None:
        markup = params.record("reply_markup")
        if not markup:
            return None
        rows = markup.get("inline_keyboard")
        if rows is None:
            if inline:
                raise Refused(400, "Bad Request: inline keyboard expected")
            return markup
        if not isinstance(rows, list | tuple) or not all(isinstance(row, list | tuple) for row in rows):
            raise Refused(400, "Bad Request: object expected as inline keyboard markup")
        buttons = [button for row in rows for button in row]
        for button in buttons:
            _check_button(button)
        if len(buttons) > BUTTON_LIMIT:
            raise Refused(400, "Bad Request: REPLY_MARKUP_TOO_LONG")
        return markup if buttons else None

    def _message(self, chat: Chat, params: Params, missing: str) -> Message:
        number = params.integer("message_id")
        if not number:
            raise Refused(400, "Bad Request: message identifier is not specified")
        message = chat.by_id.get(number)
        if message is None or message.deleted:
            raise Refused(400, f"Bad Request: {missing}")
        return message

    def _own(self, params: Params) -> tuple[Chat, Message]:
        chat = self._chat(params)
        message = self._message(chat, params, "message to edit not found")
        if not message.from_bot:
            raise Refused(400, "Bad Request: message can't be edited")
        return chat, message

    def _document(self, params: Params, field: str = "document") -> Document:
        name = params.text(field)
        upload = params.files.get(name.removeprefix("attach://") if name else field)
        if upload is None:
            if name in self._chats.files:
                return self._chats.files[name]
            text = "wrong remote file identifier specified" if name else f"there is no {field} in the request"
            raise Refused(400, f"Bad Request: {text}")
        if len(upload.content) > UPLOAD_LIMIT:
            raise Refused(413, "Request Entity Too Large")
        if not upload.content:
            raise Refused(400, "Bad Request: file must be non-empty")
        return self._chats.file(upload.name, upload.content, media_type=upload.media_type)


def _check_button(button: Any) -> None:
    """Refuse a button of an inline keyboard as Telegram does: it has a text, and does exactly one thing."""
    if not isinstance(button, dict):
        raise Refused(400, "Bad Request: can't parse inline keyboard button: expected an Object")
    if not isinstance(button.get("text"), str) or not button["text"].strip():
        raise Refused(400, "Bad Request: can't parse inline keyboard button: Text must be non-empty")
    purposes = button.keys() - {"text", "style", "icon_custom_emoji_id"}
    if not purposes:
        text = "Text buttons are unallowed in the inline keyboard"
        raise Refused(400, f"Bad Request: can't parse inline keyboard button: {text}")
    if len(purposes) > 1:
        raise Refused(400, "Bad Request: BUTTON_TYPE_INVALID")
    if "callback_data" in button and not 1 <= len(str(button["callback_data"]).encode()) <= 64:
        raise Refused(400, "Bad Request: BUTTON_DATA_INVALID")
