"""What looks like a secret, and what only talks about one."""

import pytest

from rumi.memory.messages import NewFact
from rumi.memory.secrets import looks_secret


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("groq", "gsk_abcdefgh12345678"),
        ("openai", "sk-abcdefghijklmnopqrstu"),
        ("bot", "1234567890:AAAbbbCCCdddEEEfffGGGhhhIIIjjjKKKLL"),
        ("aws", "AKIAIOSFODNN7EXAMPLE"),
        ("github", "usa ghp_abcdefghijklmnopqrstuvwx para todo"),
        ("jwt", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc"),
        ("db", "postgres://ana:secreto9@db/x"),
        ("key file", "-----BEGIN OPENSSH PRIVATE KEY-----"),
        ("password", "sunflower"),
        ("wifi password", "sunflower"),
        ("contraseña del banco", "girasol"),
        ("db_password", "x"),
        ("clave", "Tigre2024"),
        ("clave del wifi", "tigre-2024"),
        ("PIN", "4821"),
        ("api key", "abcd efgh"),
        ("cvv", "123"),
        ("wifi", "the password is hunter2"),
        ("nota", "la contraseña de la compu es: Perro7"),
        ("visa", "4111 1111 1111 1111"),
        ("amex", "378282246310005"),
        ("tarjeta", "5555-5555-5555-4444"),
    ],
)
def test_keys_passwords_and_card_numbers_are_secrets(key: str, value: str) -> None:
    assert looks_secret(NewFact(key, value))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("city", "Rosario"),
        ("password manager", "1Password"),
        ("gestor de contraseñas", "Bitwarden"),
        ("passwords", "changes them every month"),
        ("palabra clave", "familia"),
        ("clave", "valor1"),
        ("secreto", "zanahoria-42"),
        ("phone", "+54 9 341 155 1234"),
        ("phone", "5493411551234"),
        ("book", "ISBN 978-3-16-148410-0"),
        ("order", "1234 5678 9012 3456"),
        ("commit", "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c"),
        ("birthday", "1990-05-17"),
        ("hobby", "toca la clave de sol"),
        ("basketball", "pins on the wall"),
        ("website", "https://ana.example/key?page=2"),
    ],
)
def test_what_only_looks_a_little_like_one_is_none(key: str, value: str) -> None:
    assert not looks_secret(NewFact(key, value))
