"""Changes of workflows by words, with a scripted model."""

import pytest

from operad.flows.edit import difference
from operad.flows.node_graph import Edge, NodeGraph, NodeSpec
from operad.runtime.testing import Fail, ScriptedModel
from operad.server.studio.chatting import with_edge_of, with_node_of


@pytest.fixture
def chat(serve):
    """Says something to the studio of a new, empty file with a scripted model: the client, and the messages."""

    def chat(model, *said):
        with ScriptedModel(model) as endpoint:
            studio = serve(model=endpoint.model)
            studio.told("files", {"new": "empty", "path": "new.yaml"})
            return studio, [say(studio, "new.yaml", text) for text in said]

    return chat


def say(studio, path, text, **said):
    document = studio.open(path)
    with studio._http.stream(
        "POST", f"{studio.url}data/chat", json={"path": path, "version": document["version"], "text": text, **said}
    ) as answer:
        body = answer.read().decode()
    assert answer.status_code == 200, body
    import json

    return [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: ")]


@pytest.fixture
def paper(conversation):
    return conversation("paper")


def test_a_workflow_is_made_by_words_and_waits_to_be_accepted(chat, stages, paper):
    studio, [messages] = chat(stages(paper[0]), paper[0]["says"])
    kinds = [each["kind"] for each in messages]
    assert (kinds[0], kinds[-2:]) == ("stage", ["draft", "done"])
    told = [each["text"] for each in messages if each["kind"] in ("stage", "size", "check")]
    assert told == [
        "Planning the nodes", "Looking over the draft", "A draft of 4 nodes", "Checking", told[-1],
    ]  # fmt: skip
    assert all(each in told[-1] for each in ("static check, dry run", "not reviewed"))
    assert " [add]" not in next(each["text"] for each in messages if each["kind"] == "note")
    draft = messages[-2]
    assert draft["changes"]["added"] == ["2", "3", "4"]
    assert [each["id"] for each in draft["document"]["nodes"]] == ["1", "2", "3", "4"]
    assert len(studio.open("new.yaml")["nodes"]) == 1
    accepted = studio.told("chat/accept", {"path": "new.yaml"})
    assert [each["id"] for each in accepted["nodes"]] == ["1", "2", "3", "4"]
    assert [each["kind"] for each in accepted["steps"]] == ["open", "chat"]
    assert accepted["instructions"] == [paper[0]["says"]]


def test_a_draft_waits_for_a_page_that_is_reloaded_until_it_is_accepted_or_the_file_changes(chat, stages, paper):
    studio, [messages] = chat(stages(paper[0]), paper[0]["says"])
    assert studio.get("data/chat?path=new.yaml").json() == {
        key: messages[-2][key] for key in ("kind", "document", "changes")
    }
    document = studio.open("new.yaml")
    studio.apply(document, {"op": "add_node", "id": "9", "type": "answer", "params": {"answer": "Hi"}, "inside": ""})
    assert studio.get("data/chat?path=new.yaml").json() == {}


def test_changes_of_a_draft_are_accepted_and_refused_one_by_one(chat, stages, paper):
    studio, [messages] = chat(stages(paper[0]), paper[0]["says"])
    assert messages[-2]["changes"]["added"] == ["2", "3", "4"]
    left = studio.told("chat/part", {"path": "new.yaml", "accept": False, "node": "3"})
    assert len(left["document"]["nodes"]) == 1
    assert left["draft"]["changes"]["added"] == ["2", "4"]
    taken = studio.told("chat/part", {"path": "new.yaml", "accept": True, "node": "2"})
    assert [each["id"] for each in taken["document"]["nodes"]] == ["1", "2"]
    assert taken["draft"]["changes"]["added"] == ["4"]
    assert studio.get("data/chat?path=new.yaml").json()["changes"] == taken["draft"]["changes"]
    changes = taken["draft"]["changes"]
    rest = [{"node": each} for each in ["4", *(each["node"] for each in changes["changed"])]]
    rest += [{"edge": each} for each in changes["edges_added"] + changes["edges_removed"]]
    last = taken
    for part in rest:
        last = studio.told("chat/part", {"path": "new.yaml", "accept": False, **part})
    assert last["draft"] is None
    assert [each["id"] for each in last["document"]["nodes"]] == ["1", "2"]
    assert [each["kind"] for each in last["document"]["steps"]] == ["open", "chat"]


@pytest.mark.parametrize("part", [{}, {"node": 3}, {"edge": ["1", "x", "2"]}, {"edge": ["1"]}])
def test_a_part_of_a_draft_that_cannot_be_read_is_refused_and_changes_nothing(chat, stages, paper, part):
    studio, _ = chat(stages(paper[0]), paper[0]["says"])
    studio.refused("chat/part", {"path": "new.yaml", "accept": True, **part}, 400)
    assert len(studio.open("new.yaml")["nodes"]) == 1


def test_a_key_in_a_sentence_is_in_no_prompt_and_no_file(serve, stages, paper):
    with ScriptedModel(stages(paper[0])) as endpoint:
        studio = serve(model=endpoint.model)
        studio.told("files", {"new": "empty", "path": "new.yaml"})
        messages = say(studio, "new.yaml", f"{paper[0]['says']} Use api_key=8f3c21b7d94e5.")
        accepted = studio.told("chat/accept", {"path": "new.yaml"})
        assert "8f3c21b7d94e5" not in str(endpoint.requests) + str(messages) + str(accepted)
    assert accepted["instructions"] == [f"{paper[0]['says']} Use api_key={{{{secret.API_KEY}}}}."]
    assert "operad secrets set API_KEY" in str([each["text"] for each in messages if each["kind"] == "note"])


@pytest.mark.parametrize("accepted", [True, False])
def test_a_second_sentence_changes_what_the_first_one_made(serve, stages, paper, accepted):
    """Accepted or not: a draft that is shown is what the next sentence is about."""
    with ScriptedModel(stages(*paper[:2])) as endpoint:
        studio = serve(model=endpoint.model)
        studio.told("files", {"new": "empty", "path": "new.yaml"})
        say(studio, "new.yaml", paper[0]["says"])
        if accepted:
            studio.told("chat/accept", {"path": "new.yaml"})
        messages = say(studio, "new.yaml", paper[1]["says"], draft=not accepted)
        changes = messages[-2]["changes"]
        assert changes["added"] == (["5"] if accepted else ["2", "3", "5", "4"])
        assert [each["node"] for each in changes["changed"]] == (["4"] if accepted else ["1"])
        document = studio.told("chat/accept", {"path": "new.yaml"})
    assert [each["id"] for each in document["nodes"]] == ["1", "2", "3", "5", "4"]
    assert document["instructions"] == [paper[0]["says"], paper[1]["says"]]
    says = [paper[0]["says"], paper[1]["says"]]
    assert [each["title"] for each in document["steps"][1:]] == (says if accepted else [" ".join(says)])


def test_without_the_draft_on_the_canvas_a_sentence_is_about_the_file(chat, stages, paper):
    _, [_, messages] = chat(stages(paper[0]), paper[0]["says"], paper[0]["says"])
    assert messages[-2]["changes"]["added"] == ["2", "3", "4"]


def test_an_existing_file_is_changed_by_a_sentence_and_keeps_its_comments(serve, stages):
    from studios import FIVE

    says = {
        "plan": [
            {
                "reasoning": "", "drop": ["4"],
                "nodes": [
                    {"id": "3", "params": {"template": "{{ said | upper }}!"}},
                    {"id": "5", "after": ["3"], "params": {"outputs": [{"name": "loud", "value": "3.output"}]}},
                ],
            }
        ],
        "run": {"says": {}},
    }  # fmt: skip
    with ScriptedModel(stages(says)) as endpoint:
        studio = serve(model=endpoint.model)
        text = FIVE.replace("workflow: five\n", "# mine\nworkflow: five\n")
        (studio.folder / "five.yaml").write_text(text)
        messages = say(studio, "five.yaml", "Upper case; drop the quoted one.")
        changes = messages[-2]["changes"]
        assert (changes["removed"], [each["node"] for each in changes["changed"]]) == (["4"], ["3", "5"])
        assert (studio.folder / "five.yaml").read_text() == text
        studio.told("chat/accept", {"path": "five.yaml"})
    lines = (studio.folder / "five.yaml").read_text().splitlines()
    assert lines[0] == "# mine"
    assert text.splitlines()[4] in lines  # the node 2 as it was


def test_a_draft_is_dropped_and_an_accepted_one_taken_back(chat, stages, paper):
    studio, _ = chat(stages(paper[0]), paper[0]["says"])
    assert len(studio.told("chat/undo", {"path": "new.yaml"})["nodes"]) == 1
    assert studio.refused("chat/accept", {"path": "new.yaml"}, 400)["error"] == "there is no draft to accept"
    studio, _ = chat(stages(paper[0]), paper[0]["says"])
    studio.told("chat/accept", {"path": "new.yaml"})
    assert len(studio.told("chat/undo", {"path": "new.yaml"})["nodes"]) == 1


def test_a_model_that_fails_is_told_in_the_stream(chat):
    _, [messages] = chat([Fail(401)], "Sum up a text (variable text).")
    assert [each["kind"] for each in messages][-2:] == ["error", "done"]
    assert "401" in messages[-2]["text"]


def test_without_a_model_it_says_what_to_set(serve, nothing_configured):
    studio = serve()
    studio.told("files", {"new": "empty", "path": "new.yaml"})
    told = studio.refused("chat", {"path": "new.yaml", "version": 1, "text": "Sum up a text."}, 400)
    assert told["error"].endswith(
        "set OPENAI_API_KEY, or OPENAI_BASE_URL and OPERAD_MODEL, in the environment, and start operad studio again"
    )
    assert studio.get("data/files").json()["model"]["configured"] is False


# Plans first


REQUEST = "Sum up a text (variable text). Output the summary (variable summary)."


def node(id, type, after, **params):
    return {"id": id, "type": type, "does": f"does {id}", "after": after, "params": params}


PLAN = {
    "nodes": [
        node("1", "start", [], variables=[{"name": "text", "type": "string"}]),
        node("2", "llm", ["1"], system="", user="Sum up {{#1.text#}}"),
        node("3", "end", ["2"], outputs=[{"name": "summary", "value": "2.text"}]),
    ],
    "questions": [{"question": "In which language?", "default": "that of the text"}],
}


@pytest.fixture
def planning(serve, stages):
    """A studio with an empty file whose model plans like this and then builds; and the model."""
    model = stages(plan=[PLAN, {**PLAN, "questions": []}])
    with ScriptedModel(model) as endpoint:
        studio = serve(model=endpoint.model)
        studio.told("files", {"new": "empty", "path": "new.yaml"})
        yield studio, model


def test_a_plan_is_shown_with_its_questions_and_built_with_the_answers(planning):
    studio, model = planning
    *stages, plan, done = say(studio, "new.yaml", REQUEST, plan=True)
    assert ([each["text"] for each in stages], done["kind"]) == (["Planning the nodes"], "done")
    assert plan["lines"][:5] == [
        "1 start: does 1", "2 llm: does 2; after 1", "3 end: does 3; after 2",
        "inputs: text (string)", "outputs: summary (string)",
    ]  # fmt: skip
    assert plan["questions"] == [{"text": "In which language?", "default": "that of the text"}]
    assert len(studio.open("new.yaml")["nodes"]) == 1
    built = say(studio, "new.yaml", "", seen=True, answers=[""])
    assert built[-2]["changes"]["added"] == ["2", "3"]
    assert model.stages == ["plan"]
    document = studio.told("chat/accept", {"path": "new.yaml"})
    assert document["instructions"] == [f"{REQUEST}\nIn which language? that of the text"]


def test_a_sentence_changes_the_plan_that_is_shown(planning):
    studio, model = planning
    say(studio, "new.yaml", REQUEST, plan=True)
    plan = say(studio, "new.yaml", "Be short.", plan=True, seen=True)[-2]
    assert plan["questions"] == []
    assert f"{REQUEST}\nIn which language? that of the text\nBe short." in model.asked[1][1]
    assert '"does":"does 2"' in model.asked[1][1]


def test_without_a_plan_of_this_version_nothing_is_built(planning):
    studio, _ = planning
    told = studio.refused("chat", {"path": "new.yaml", "version": 1, "text": "", "seen": True, "answers": []}, 400)
    assert told["error"] == "there is no plan of this version of the file: plan it again"


def test_a_plan_that_the_model_refuses_is_an_error_with_its_words(serve, stages):
    with ScriptedModel(stages(plan=["I cannot help with that."])) as endpoint:
        studio = serve(model=endpoint.model)
        studio.told("files", {"new": "empty", "path": "new.yaml"})
        *_, error, _ = say(studio, "new.yaml", REQUEST, plan=True)
    assert (error["kind"], error["text"].partition(":")[0]) == ("error", "no plan")
    assert "I cannot help with that." in error["text"]


# One change of a draft, accepted or refused alone


def graph(edges, *nodes, parents=()):
    parents = dict(parents)
    specs = [NodeSpec(each[0], "llm", {"user": each[1:]}, parents.get(each[0], "")) for each in nodes]
    return NodeGraph(specs, [Edge(edge[0], edge[1]) for edge in edges], "flow")


def ids(graph):
    return "".join(sorted(each.id for each in graph.nodes)), sorted(
        f"{each.source}{each.target}" for each in graph.edges
    )


FILE = graph(["ad"], "a", "d")
DRAFT = graph(["ab", "bc", "cd"], "a", "b", "c", "d!")


def test_a_node_that_was_put_into_an_edge_takes_the_place_of_the_edge():
    draft = graph(["ab", "bd"], "a", "b", "d")
    assert ids(with_node_of(FILE, draft, "b")) == ids(draft)
    assert ids(with_node_of(draft, FILE, "b")) == ids(FILE)


def test_an_edge_to_a_node_that_was_not_accepted_is_left_out_until_it_is():
    half = with_node_of(FILE, DRAFT, "b")
    assert ids(half) == ("abd", ["ab", "ad"])
    whole = with_node_of(with_node_of(half, DRAFT, "c"), DRAFT, "d")
    whole = with_edge_of(whole, DRAFT, "a", 0, "d")
    assert not difference(whole, DRAFT)


def test_a_changed_node_is_accepted_or_refused_without_the_others():
    assert with_node_of(FILE, DRAFT, "d").by_id["d"].params == {"user": "!"}
    assert with_node_of(DRAFT, FILE, "d").by_id["d"].params == {"user": ""}
    assert ids(with_node_of(DRAFT, FILE, "d"))[0] == "abcd"


def test_a_container_comes_and_goes_with_all_that_is_inside_it():
    file, draft = graph([], "a"), graph(["aw", "xy"], "a", "w", "x", "y", parents=[("x", "w"), ("y", "w")])
    assert ids(with_node_of(file, draft, "w")) == ids(draft)
    assert ids(with_node_of(draft, file, "w")) == ids(file)
    assert ids(with_node_of(file, draft, "x")) == ("awx", ["aw"])


@pytest.mark.parametrize("order", ["bcd", "dcb", "cbd"])
def test_accepting_one_after_the_other_comes_to_the_draft(order):
    made = FILE
    for node in order:
        made = with_node_of(made, DRAFT, node)
    made = with_edge_of(made, DRAFT, "a", 0, "d")
    assert not difference(made, DRAFT)


@pytest.mark.parametrize("order", ["bcd", "dcb", "cbd"])
def test_refusing_one_after_the_other_comes_to_the_file(order):
    left = DRAFT
    for node in order:
        left = with_node_of(left, FILE, node)
    left = with_edge_of(left, FILE, "a", 0, "d")
    assert not difference(left, FILE)


def test_an_edge_alone_is_taken_over_in_both_directions():
    file, draft = graph(["ab"], "a", "b", "c"), graph(["ac"], "a", "b", "c")
    assert ids(with_edge_of(file, draft, "a", 0, "c")) == ("abc", ["ab", "ac"])
    assert ids(with_edge_of(file, draft, "a", 0, "b")) == ("abc", [])
