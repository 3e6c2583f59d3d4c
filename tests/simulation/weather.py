"""What goes wrong between the bot and Telegram: drawn once for each history."""

from tests.fakes.bot_api import BotApi
from tests.fakes.bot_api_faults import (
    Broken,
    Doubled,
    Error,
    Fault,
    Flood,
    Late,
    Redelivered,
    Reset,
    Shuffled,
    Silent,
    Slow,
    Truncated,
)
from tests.fakes.bot_api_world import Chat
from tests.simulation.world import World

CONFLICT = Error(409, "Conflict: terminated by other getUpdates request")

ON_THE_WAY: tuple[tuple[float, Fault], ...] = (
    (0.05, Broken()),
    (0.04, Flood(3)),
    (0.02, Flood(40)),
    (0.05, Reset()),
    (0.05, Reset(after=True)),
    (0.02, Silent()),
    (0.03, Silent(after=True)),
    (0.04, Slow(2)),
    (0.02, Slow(15)),
    (0.02, Slow(70)),
    (0.02, Late(3)),
    (0.02, Late(50)),
    (0.02, Truncated()),
)
"""For any call in a chat."""

IN_UPDATES: tuple[tuple[float, Fault], ...] = (
    (0.1, Redelivered(1)),
    (0.1, Redelivered(3)),
    (0.1, Shuffled()),
    (0.1, Doubled()),
    (0.1, CONFLICT),
    (0.05, Broken()),
    (0.05, Reset()),
    (0.1, Reset(after=True)),
    (0.03, Silent()),
    (0.03, Silent(after=True)),
    (0.05, Truncated()),
    (0.05, Slow(20)),
)

CALLS = (
    *("sendMessage", "editMessageText", "deleteMessage", "sendMessageDraft", "sendDocument"),
    *("answerCallbackQuery", "editMessageReplyMarkup"),
)


IN_A_STUCK_CHAT: tuple[tuple[float, Fault], ...] = ((0.2, Slow(15)), (0.2, Silent()), (0.2, Late(50)))


def brew(world: World, api: BotApi, chat: Chat) -> None:
    """Let some of it happen from now on, until it is calm. `room` is where it is the worst."""
    random = world.random
    if world.theme == "late":
        api.faults.often(0.5, Late(50), "editMessageText")
    if world.theme == "stuck":
        for chance, fault in IN_A_STUCK_CHAT:
            api.faults.often(chance, fault, chat=chat.id)
    measure = world.measure["telegram"]
    for chance, fault in ON_THE_WAY:
        if random.random() < 0.3 * measure:
            method = random.choice((*CALLS, None))
            for call in CALLS if method is None else (method,):
                api.faults.often(min(0.5, chance * measure * random.choice((1, 1, 3))), fault, call)
    measure = world.measure["updates"]
    for chance, fault in IN_UPDATES:
        if random.random() < 0.3 * measure:
            api.faults.often(min(0.5, chance * measure), fault, "getUpdates")


def clear(api: BotApi) -> None:
    """Calm."""
    api.faults.clear()
