"""Messages that belong together: pieces of one thought, which a client sends as several messages.

Telegram sends a comment on a forwarded message as a message of its own, each forwarded message and each
document as one, and cuts a text at 4,096 units. A chat joins such pieces to one message for one turn in three
ways: it holds the first piece for a moment if more is likely to come; it adds a piece to a turn that has done
nothing yet; and it adds a piece to a message that waits in the queue. Events of a trigger that wait in the
queue are joined too, so that a flood of events needs few turns.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from rumi.agent.prompts.message_entries import bounded, fetched, newest_events
from rumi.chats.commands import parse_chat_command
from rumi.platform.texts import questions as question_texts
from rumi.store.journal.records import CUT_FROM_UNITS, CUT_UNITS, Incoming, joined, text_units

SLOW_TIMES: Final = 4.0
"""Factor of `together_s` where the next piece takes time: a client sends the rest of a long text after the
beginning has arrived, and a file or an album when it has uploaded it."""

LATE_S: Final = 1.0
"""A message that was received more than this many seconds ago has waited until its chat could judge it."""

MOST_PARTS: Final = 101
"""Maximum number of parts of a message. Telegram forwards up to 100 messages at once, with a comment."""

APART_S: Final = 3.0
"""Messages sent or received more than this many seconds apart are no pieces of one message. Services report
the time of sending in whole seconds. After an outage, one batch contains messages of many hours."""

POINTING_UNITS: Final = 100
"""Only a text of at most this length is searched for words that point at something else."""

_POINTING: Final = (
    # The most frequent words are left out where they mean something else in another of these languages.
    # English, Spanish, Portuguese
    "this these those following below attached forwarded here file files photo photos picture pictures image"
    " images document documents link video pdf",
    "esto este esta estos eso siguiente siguientes abajo adjunto adjunta adjuntos archivo archivos foto fotos"
    " imagen imágenes documento documentos aquí enlace vídeo",
    "isto isso esse essa esses essas seguinte seguintes abaixo anexo anexos arquivo arquivos ficheiro"
    " ficheiros imagem imagens aqui",
    # German, French, Italian, Dutch, Polish, Turkish
    "dies diese dieses diesen diesem folgende folgendes folgenden unten anbei anhang datei dateien bild"
    " bilder dokument",
    "ceci cela ça cet cette ces suivant suivante suivants dessous joint jointe ci-joint ci-dessous fichier"
    " fichiers ici voici",
    "questo questa questi queste seguente seguenti sotto allegato allegati ecco immagine immagini",
    "deze hieronder bijlage bestand bestanden afbeelding afbeeldingen",
    "tego tych poniżej następujące załącznik plik pliki zdjęcie zdjęcia tutaj",
    "bu bunu bunları şunu aşağıdaki ekteki dosya dosyayı dosyaları resmi",
    # Russian, Ukrainian, Arabic, Hindi
    "это этот эта эти эту ниже следующее следующий файл файлы фото вложение вот здесь документ картинка",
    "це цей ця ці цю нижче наступне файли ось тут",
    "هذا هذه هؤلاء التالي التالية أدناه المرفق الملف الملفات الصورة هنا",
    "यह ये इस इसे इसका इन इन्हें नीचे फ़ाइल फाइल तस्वीर यहाँ संलग्न",
)
"""Words that point at something outside of a text, in the languages of the catalogues and some large ones."""

_POINTING_WORDS: Final = frozenset(word for line in _POINTING for word in line.split())
WANTING_MOST_WORDS: Final = 5
"""Only a text of at most this many words is searched for verbs that want an object."""

_WANTING: Final = (
    "summarize summarise summary sum tldr tl translate proofread transcribe compare review which thoughts",
    "resume resumir resumen resumí traduce traducí traducir transcribe transcribir compara compará comparar",
    "corrige corregí corregir revisa revisá cuál opinas opinás",
    "resuma traduza traduz traduzir transcreva compare corrija revise qual achas acha",
    "zusammenfassen übersetze übersetzen vergleiche korrigiere welche welches welcher",
    "résume traduis traduire compare corrige quel quelle laquelle lequel",
    "riassumi traduci confronta correggi quale",
    "переведи сравни перескажи проверь",
)
"""Verbs and question words that are about something which a text of so few words does not contain."""

_WANTING_WORDS: Final = frozenset(word for line in _WANTING for word in line.split())

_MADE: Final = re.compile(r"(?:live )?location -?\d|(?:poll|quiz|checklist): |dice \S+|sticker(?: \S+)?$")
"""What a location, a poll and the like become as text (`rumi.channels.telegram.receiving.kinds`)."""

_POINTING_UNSPACED: Final = re.compile(
    # Chinese, Japanese, Korean: words without blanks around them, or with endings
    "这|這|以下|下面|附件|文件|图片|圖片|照片|これ|この|次の|添付|ファイル|写真|画像|이거|이것|다음|아래|첨부|파일|사진"
)
_WORD: Final = re.compile(r"[^\s.,;:!?()\"'«»“”‘’¿¡…]+")
_ENDS_OPEN: Final = (":", "：", "👇", "⬇️", "⬇", "↓")


def hold_s(message: Incoming, together_s: float) -> float:
    """Return how long a chat waits for more after this message before it begins a turn; 0 for most messages.

    A message in which the sender says what to do is complete, unless the text points at something that is not
    in the message. The client of such a source as Telegram then sends that as further messages.
    """
    text, units = message.text.strip(), text_units(message.text)
    if not may_be_piece(message):
        return 0.0
    if message.attachments:
        return 0.0 if text else together_s
    if units >= CUT_FROM_UNITS:
        return together_s * SLOW_TIMES
    return together_s if points(text) or _MADE.match(text) else 0.0


def window_s(earlier: Incoming, later: Incoming, together_s: float) -> float:
    """Return how long after a message another one still belongs to it, if its turn has done nothing yet."""
    slow = text_units(earlier.text) > CUT_UNITS // 2 or (later.attachments and not later.text.strip())
    return together_s * (SLOW_TIMES if slow else 1.0)


def points(text: str) -> bool:
    """Return True if a text points at something that does not stand in it."""
    if text.endswith(_ENDS_OPEN):
        return True
    if text_units(text) > POINTING_UNITS or "\n" in text:
        return False
    words = _WORD.findall(text.casefold())
    if len(words) <= WANTING_MOST_WORDS and not _WANTING_WORDS.isdisjoint(words):
        return True
    return not _POINTING_WORDS.isdisjoint(words) or _POINTING_UNSPACED.search(text) is not None


def may_be_piece(message: Incoming) -> bool:
    """Return True if the message can be a part of a turn with others: a person wrote it in a chat service.

    What a terminal, a page or a program sends has no `origin` and is complete: its files come with its text,
    and two of its messages may come from two windows.
    """
    one = (message.by_hand, not message.ready, not message.apart, not message.unattended)
    if message.origin is None or not all(one) or message.button or message.corrected:
        return False
    if fetched(message.attachments):
        return True
    return question_texts.yes_or_no(message.text) is None and parse_chat_command(message.text) is None


def belong(earlier: Incoming, later: Incoming) -> bool:
    """Return True if the messages can be pieces of one: same sender, same channel, about the same time."""
    if not _fit(earlier, later):
        return False
    times = ((earlier.sent, later.sent), (earlier.received, later.received))
    return not any(first and second and abs(second - first) > APART_S for first, second in times)


def sent_together(earlier: Incoming, later: Incoming) -> bool:
    """Return True if the messages were sent as pieces of one, whenever they were received.

    An end of the process between them delays the second one. Services report whole seconds.
    """
    sent = bool(earlier.sent and later.sent) and abs(later.sent - earlier.sent) <= 1
    return sent and _fit(earlier, later)


def _fit(earlier: Incoming, later: Incoming) -> bool:
    return may_be_piece(earlier) and may_be_piece(later) and same_way(earlier, later)


def same_way(one: Incoming, other: Incoming) -> bool:
    """Return True if the same person sent both messages, and a turn for one has what the other would have."""
    names = ("chat", "user", "channel", "model", "project", "apart", "unattended", "by_hand", "trigger")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def whole(parts: Sequence[Incoming], max_chars: int) -> Incoming:
    """Return the message that these parts form, with at most `max_chars` characters in its attachments."""
    message = joined(parts)
    if len(parts) == 1:
        return message
    if message.trigger:
        return replace(message, attachments=newest_events(message.attachments, max_chars))
    return replace(message, attachments=bounded(message.attachments, max_chars))


def regrouped(messages: Iterable[Incoming], together_s: float) -> list[list[Incoming]]:
    """Return stored messages, each with the parts of its turn; the first message of a group is the turn's.

    Messages that began no turn form a group if they came together, or bring events of the same trigger.
    """
    groups: list[list[Incoming]] = []
    for message in messages:
        turns = [group for group in groups if _of_group(message, group) or joins_events(group, message)]
        last = groups[-1] if groups else []
        if turns:
            turns[0].append(message)
        elif last and not (last[0].turn or message.turn) and _came_together(last[-1], message, together_s):
            last.append(message)
        else:
            groups.append([message])
    return groups


def joins_events(waiting: Sequence[Incoming], event: Incoming) -> bool:
    """Return True if an event gets one turn with events of its trigger that wait and have begun no turn."""
    first = waiting[0] if waiting else None
    if first is None or not event.trigger or first.turn or event.turn or len(waiting) >= MOST_PARTS:
        return False
    return first.text == event.text and same_way(first, event)


def _of_group(message: Incoming, group: Sequence[Incoming]) -> bool:
    if message.corrected:
        return any(part.id == message.corrected for part in group)
    return bool(message.part_of) and message.part_of == group[0].id


def _came_together(earlier: Incoming, later: Incoming, together_s: float) -> bool:
    if not together_s or not belong(earlier, later):
        return False
    return 0 <= later.received - earlier.received <= window_s(earlier, later, together_s)
