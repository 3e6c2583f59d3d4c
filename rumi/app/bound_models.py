"""The models of chats and tasks, each bound to the account that pays for its calls."""

from dataclasses import dataclass

from rumi.chats.people.people import People
from rumi.models.actor import ModelsRef
from rumi.models.build import ModelSet
from rumi.models.metering import Account, Meter
from rumi.models.model import Model
from rumi.platform.chat_ids import ChatIds, task_key
from rumi.platform.config.schema import Settings
from rumi.store.journal.records import Incoming, TaskRecord
from rumi.tasks.services import account_of
from rumi.texts import Language


@dataclass(frozen=True, slots=True)
class BoundModels:
    """Binds models to the accounts that pay for their calls.

    `research` is the model for research tasks that name no model; if `research` is empty, they use the first
    configured model.
    """

    models: ModelSet
    permits: ModelsRef
    meter: Meter
    ids: ChatIds
    people: People
    settings: Settings
    research: str = ""

    def of_chat(self, chat: str, language: Language, chosen: str) -> Model:
        """Return the model for requests of a chat's owner."""
        account = Account(chat, self.ids.owner_of(chat))
        return self._bind(chat, language, chosen, account)

    def of_sender(self, message: Incoming, language: Language) -> Model:
        """Return the model for a message: the requested model if the sender's rights allow that choice."""
        chosen = self.people.of(message).rights.model(message.model, self.models.name)
        return self._bind(message.chat, language, chosen, self.people.account(message))

    def of_task(self, task: TaskRecord) -> Model:
        """Return the model for a task: the requested model if the rights of the task's person allow it."""
        chosen = task.model or ("" if task.bot else self.research)
        chosen = self.people.of_task(task).rights.model(chosen, self.models.name)
        account = self.people.account_of_task(task, account_of(task, self.settings))
        return self._bind(task_key(task.id), task.language, chosen, account)

    def _bind(self, chat_key: str, language: Language, chosen: str, account: Account) -> Model:
        return self.models.bind(
            chat_key, self.permits, language=language, chosen=chosen, account=account, meter=self.meter
        )
