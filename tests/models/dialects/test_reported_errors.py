"""Errors in bodies: the recordings have the forms; here are the texts that they become."""

import pytest

from rumi.models.dialects.reported_errors import error_object


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"detail": [{"loc": ["body", "x"], "msg": "required"}]}, "body.x: required"),
        ({"detail": {"errors": [{"loc": ["y"], "msg": "wrong"}]}}, "y: wrong"),
        ([{"loc": ["x"], "msg": "one"}, {"loc": ["y"], "msg": "two"}], "x: one; y: two"),
        (
            {"errors": {"model": ["is unknown"], "stop": "is too long"}},
            "model: is unknown; stop: is too long",
        ),
        ({"errors": {"message": "only one"}}, "only one"),
        ({"errors": {"model": []}}, ""),
    ],
)
def test_the_field_that_is_wrong_is_named_once(body: object, says: str) -> None:
    assert error_object(body)["message"] == says
