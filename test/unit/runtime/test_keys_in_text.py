"""Keys in texts that people write: what is taken for one, its name, and what is not."""

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from operad.runtime.values import keys_in_text
from operad.runtime.values.keys_in_text import name_keys

KEYS = {
    "Ask https://api.weather.example/v1 with the key sk-live-abc123SECRET.": "sk-live-abc123SECRET",
    "GET https://api.weather.example/?q=Berlin&appid=0123456789abcdef0123456789abcdef": "0123456789abcdef0123456789abcdef",
    "For api.weather.example: api_key=ab12cd34ef56": "ab12cd34ef56",
    "X-Api-Key: 9f8e7d6c5b4a": "9f8e7d6c5b4a",
    "Authorization: Bearer 8f3c21b7d94e": "8f3c21b7d94e",
    "Authorization: Basic dXNlcjpwYXNzd29yZA==": "dXNlcjpwYXNzd29yZA==",
    "The API key for the weather service is 9f8e7d6c5b4a3210.": "9f8e7d6c5b4a3210",
    "Their api key (abc123def456ghi7) goes in the header.": "abc123def456ghi7",
    "with key=550e8400-e29b-41d4-a716-446655440000": "550e8400-e29b-41d4-a716-446655440000",
    'The body is {"api_key":"abc123def456","q":1}': "abc123def456",
    "password: Passw0rd123": "Passw0rd123",
    "Log in to https://bob:hunter@files.example/x": "hunter",
    "postgres://app:p4ss@db.example:5432/x": "p4ss",
    "use AKIAIOSFODNN7EXAMPLE": "AKIAIOSFODNN7EXAMPLE",
    "and the secret access key wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "ghp_abcdefghij1234567890ABCDEFGHIJ1234": "ghp_abcdefghij1234567890ABCDEFGHIJ1234",
    "as eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghij": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghij",
    "post to https://hooks.slack.com/services/T00000000/B00000000/XXyyZZ1234": "T00000000/B00000000/XXyyZZ1234",
    "slack xoxb-123456789012-abcdefGHIJ": "xoxb-123456789012-abcdefGHIJ",
    "Der API-Schlüssel lautet a1b2c3d4e5f6g7.": "a1b2c3d4e5f6g7",
    "Das Passwort ist Sommer2024.": "Sommer2024",
    "La clé API est 3f2a9c7b8d1e4f50.": "3f2a9c7b8d1e4f50",
    "密钥是a1b2c3d4e5f6，请查询天气": "a1b2c3d4e5f6",
}

NO_KEYS = [
    "The order 550e8400-e29b-41d4-a716-446655440000 is paid.",
    "Check out commit 3f786850e387550fdaa26c4fe0e4c5c0ffee1234.",
    "The key of the order is 550e8400-e29b-41d4-a716-446655440000",
    "Read quarterly_report_2024_final.pdf and https://example.com/a/b?page=2&q=key",
    "Donaudampfschifffahrtsgesellschaftskapitän",
    "The primary key: user_id_12345abc",
    "The idempotency key is 550e8400-e29b-41d4-a716-446655440000",
    "next page token: abc123def456",
    "max_tokens: 4096",
    "api_key={{secret.SHOP_KEY}}",
    "api_key=YOUR_API_KEY1",
    "The key is stored in the file config2024.yaml.",
    "the password is asked for (variable password)",
    "Group by the key customer_number_2024",
    "The monkey: abc123def456",
    "The user gives a token (variable token1) and a key (variable api_key_2).",
    "sk-learn-tutorial-2024-edition",
    "token: 1.token",
    "https://user@example.com/x mailto:bob@example.com",
    "private key: keys/server2048.pem",
    "Summarize the keynote in at most 200 words; the secret of its success is 3 steps.",
]


@pytest.mark.parametrize(("text", "key"), KEYS.items())
def test_a_key_is_replaced_by_the_name_of_a_secret_and_nothing_else_changes(text, key):
    named = name_keys(text)
    assert len(named.names) == 1
    assert named.text == text.replace(key, f"{{{{secret.{named.names[0]}}}}}")


@pytest.mark.parametrize("text", NO_KEYS)
def test_what_is_no_key_stays(text):
    assert name_keys(text) == (text, ())


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Ask https://api.weather.example with the key 8f3c21b7d94e5", ("WEATHER_KEY",)),
        ("Ask https://api.shop.co.uk with the token 8f3c21b7d94e5", ("SHOP_TOKEN",)),
        ("Log in to ftp://bob:s3cret@files.example", ("FILES_PASSWORD",)),
        ("ghp_abcdefghij1234567890ABCDEFGHIJ1234 for https://git.example", ("GITHUB_KEY",)),
        ("the key: 8f3c21b7d94e5", ("API_KEY",)),
        ("http://10.0.0.1/?api_key=8f3c21b7d94e5", ("API_KEY",)),
        (
            "https://a.example/?key=8f3c21b7d94e5, then https://b.example/?key=aa3c21b7d94e5, again key=8f3c21b7d94e5",
            ("A_KEY", "B_KEY"),
        ),
        ("For https://a.example: key=8f3c21b7d94e5 or key=aa3c21b7d94e5", ("A_KEY", "A_KEY_2")),
    ],
)
def test_the_name_says_the_host_or_the_vendor_and_the_kind(text, names):
    assert name_keys(text).names == names


_WORD = st.text(string.ascii_letters + string.digits, min_size=20, max_size=40).filter(
    lambda word: any(c.isalpha() for c in word[4:-4]) and any(c.isdigit() for c in word[4:-4])
)


@given(
    _WORD, st.sampled_from(["api_key={}", "token: {}", "the key is {}.", "Bearer {}", "https://x.example/?key={}&a=b"])
)
@example("a1" * 200, "api_key={}")
def test_a_random_word_after_a_label_is_a_key_and_a_named_text_has_none(word, form):
    named = name_keys(form.format(word))
    assert word not in named.text
    assert name_keys(named.text) == (named.text, ())


@given(st.text(string.ascii_letters + string.digits + " .,-_/:=", max_size=300))
def test_a_text_without_labels_and_forms_of_vendors_stays(text):
    lower = text.lower()
    if not any(part in lower for part in ("key", "token", "secret", "pass", "pwd", "auth", "cred", "appid", "bearer", "basic", "clave", "jeton", "kennwort", "sk-", "://", "aa", "akia", "asia", "aiza", "eyj", "gh", "gl", "hf_", "sg.", "xox", "xapp", "_live", "_test", "whsec")):  # fmt: skip
        assert name_keys(text) == (text, ())


def test_a_private_key_of_several_lines_is_one_key():
    text = "Sign with\n-----BEGIN PRIVATE KEY-----\nMIIEvQ\nIBADANB\n-----END PRIVATE KEY-----\nand send."
    assert name_keys(text).text == "Sign with\n{{secret.API_KEY}}\nand send."


PIECES = [*"abc-_ \n:='\"", "key", "Token", "my-api_key", "monkey", "secretoken", "PASSWORD", "mot de passe", "密码", "是", "is", "8f3c21b7d94e", "Ab12cd34Ef56", "İ", "clé", "authorization", "the"]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_labels_are_found_wherever_a_search_through_the_whole_text_finds_them(text):
    found = [(match.span(), match.groups()) for match in keys_in_text._after_labels(text)]
    assert found == [(match.span(), match.groups()) for match in keys_in_text._AFTER_LABEL.finditer(text)]
