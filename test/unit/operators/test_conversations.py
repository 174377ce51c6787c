"""Variables of conversations, which are kept for a bounded number of sessions."""

from operad.operators.services import MAX_SESSIONS, Conversations


def test_the_variables_of_the_least_recently_used_session_are_removed():
    conversations = Conversations()
    conversations.keep("used", {"n": 1})
    conversations.keep("unused", {"n": 2})
    for number in range(MAX_SESSIONS - 2):
        conversations.keep(f"s{number}", {"n": number})
    assert conversations.get("used") == {"n": 1}
    conversations.keep("new", {"n": 3})
    assert conversations.get("used") == {"n": 1}
    assert conversations.get("unused") == {}
    assert conversations.get("new") == {"n": 3}


def test_values_are_added_to_those_of_the_session():
    conversations = Conversations()
    conversations.keep("s", {"n": 1, "name": "a"})
    conversations.keep("s", {"n": 2})
    assert conversations.get("s") == {"n": 2, "name": "a"}
