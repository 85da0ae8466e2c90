from __future__ import annotations

import base64
import os

import pytest

from foundation.encryption import WrongKey
from foundation.sealing import seal, unseal


def fernet_key() -> str:
    return base64.urlsafe_b64encode(os.urandom(32)).decode()


def test_what_was_sealed_is_read_again_and_stands_nowhere_in_it():
    sealed = seal(b"90000000175", b"request")
    assert unseal(sealed, b"request") == b"90000000175"
    assert b"90000000175" not in sealed


def test_equal_messages_differ():
    assert len({seal(b"same", b"request") for _ in range(1000)}) == 1000


@pytest.mark.parametrize("place", [0, 16, 28, -1])
def test_an_altered_message_is_refused(place):
    sealed = bytearray(seal(b"content", b"request"))
    sealed[place] ^= 1
    with pytest.raises(WrongKey):
        unseal(bytes(sealed), b"request")


@pytest.mark.parametrize("cut", [b"", b"short", b"x" * 28])
def test_what_is_no_message_is_refused(cut):
    with pytest.raises(WrongKey):
        unseal(cut, b"request")


def test_a_message_is_good_for_its_own_context_only():
    with pytest.raises(WrongKey):
        unseal(seal(b"content", b"one request"), b"another")


@pytest.mark.control("V11")
def test_messages_outlast_the_rotation_of_the_keys(settings):
    old, new = fernet_key(), fernet_key()
    settings.FIELD_ENCRYPTION_KEYS = [old]
    sealed = seal(b"content", b"request")
    settings.FIELD_ENCRYPTION_KEYS = [new, old]
    assert unseal(sealed, b"request") == b"content"
    settings.FIELD_ENCRYPTION_KEYS = [new]
    with pytest.raises(WrongKey):
        unseal(sealed, b"request")
