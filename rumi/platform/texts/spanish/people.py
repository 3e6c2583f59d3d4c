"""People, roles and rights."""

from typing import Final

PEOPLE: Final[dict[str, str]] = {
    # Configuration.
    "[roles.admin] is not allowed.": "No se permite [roles.admin].",
    "An admin may do everything; choose another name.": "Un admin puede hacer todo; elegí otro nombre.",
    "[people.local] is not allowed.": "No se permite [people.local].",
    "local is the owner of this home.": "local es el dueño de esta carpeta.",
    "people.{name}.role = {role} is not a role.": "people.{name}.role = {role} no es un rol.",
    "The roles are {known}; another one needs a section [roles.{role}].": "Los roles son {known}; otro necesita una sección [roles.{role}].",
    "The Telegram id {id} belongs to {one} and to {other}.": "El id de Telegram {id} es de {one} y de {other}.",
    "Remove it from one of the two sections.": "Quitalo de una de las dos secciones.",
    # What roles do not allow.
    "The role {role} does not allow {what}.": "El rol {role} no permite {what}.",
    "Ask an admin.": "Pedíselo a un administrador.",
    "The role {role} allows {most} bots at once.": "El rol {role} permite {most} bots a la vez.",
    "Stop one first: /bots": "Primero detené uno: /bots",
    "{many} facts are shared with this group already.": "Ya hay {many} datos compartidos con este grupo.",
    "Unshare one first.": "Primero dejá de compartir uno: /unshare.",
    # The doctor.
    "{name} has the role {role}, and an id of theirs is in telegram.admins too": "{name} tiene el rol {role}, y un id suyo está también en telegram.admins",
    "The section of the person counts. Remove the id from telegram.admins.": "Vale la sección de la persona. Quitá el id de telegram.admins.",
    "{name} has no Telegram id, so nobody is that person": "{name} no tiene un id de Telegram, así que nadie es esa persona",
    "Set people.{name}.telegram in config.toml.": "Poné people.{name}.telegram en config.toml.",
    "none but the owner": "nadie más que el dueño",
    # rumi people
    "List, add and remove the people who may talk to Rumi, and their roles.": "Mostrar, agregar y quitar a las personas que pueden hablar con Rumi, y sus roles.",
    "List the people, their roles and rights, and what they used today.": "Muestra a las personas, sus roles y permisos, y lo que usaron hoy.",
    "Write the section [people.NAME] into config.toml.": "Escribe la sección [people.NAME] en config.toml.",
    "A running Rumi reads it at its next start.": "Un Rumi en marcha la lee al volver a arrancar.",
    "Remove the section [people.NAME] from config.toml.": "Quita la sección [people.NAME] de config.toml.",
    "Lists of [telegram] stay as they are.": "Las listas de [telegram] quedan como están.",
    "Their Telegram id.": "Su id de Telegram.",
    "admin, member, guest, or one of yours.": "admin, member, guest, o uno tuyo.",
    "{name} has the role {role} from the next start on.": "{name} tiene el rol {role} desde el próximo arranque.",
    "{name} is removed from the next start on.": "{name} queda afuera desde el próximo arranque.",
    "Unknown person {name}.": "No conozco a {name}.",
    "Look at the list: rumi people list": "Mirá la lista: rumi people list",
}
