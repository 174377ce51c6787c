"""Requests and files that the studio refuses, or shows with their faults."""

import base64
import json
import os
import re

import httpx
import pytest
from local_http import NO_AUTHORITIES
from studios import FIVE

from operad.server.studio.files.folder import Folder


def refusal(answer):
    return answer.status_code, answer.json()["error"]


def test_without_the_token_nothing_is_served(studio):
    root = studio.url.rsplit("/", 2)[0]
    for path in ("/", "/data/files", "/wrong-token/data/files"):
        status, told = refusal(httpx.get(f"{root}{path}", trust_env=False, verify=NO_AUTHORITIES))
        assert status == 404
        assert "token" in told


def test_a_name_that_was_made_to_lead_here_gets_nothing(studio):
    status, told = refusal(studio.get("data/files", headers={"host": "evil.example"}))
    assert (status, told) == (403, "this page is for this machine alone: open it as 127.0.0.1 or localhost")


def test_another_site_cannot_change_anything(studio):
    for path in ["apply", "files", "run", "chat/accept"]:
        said = {"path": "five.yaml", "version": 1}
        status, _ = refusal(studio.post(f"data/{path}", said, headers={"origin": "https://evil.example"}))
        assert status == 403
        answer = studio._http.post(
            f"{studio.url}data/{path}", content=json.dumps(said), headers={"content-type": "text/plain"}
        )
        assert answer.status_code == 415
        assert (studio.folder / "five.yaml").read_text() == FIVE


def test_paths_outside_of_the_folder_are_refused(studio):
    outside = studio.folder.parent / "outside.yaml"
    outside.write_text(FIVE)
    os.symlink(outside, studio.folder / "link.yaml")
    for path, told in [
        ("../outside.yaml", "'../outside.yaml': lies outside of the folder "),
        ("/etc/passwd", "'/etc/passwd': is not the path of a file below the folder"),
        ("sub/../../outside.yaml", "'sub/../../outside.yaml': lies outside of the folder "),
        ("link.yaml", "'link.yaml': lies outside of the folder "),
        (".hidden.yaml", "'.hidden.yaml': is hidden"),
        (".git/config", "'.git/config': is hidden"),
        ("", "'': is not the path of a file below the folder"),
        ("a\0b", "'a\\x00b': is not the path of a file below the folder"),
        ("x" * 1_200, "'xxxx"),
    ]:
        for request in ("open", "apply", "undo", "run", "chat", "restore", "candidates"):
            said = {"path": path, "version": 1, "operations": [], "text": "x", "node": "1"}
            assert studio.refused(request, said, 400)["error"].startswith(told)
        assert studio.refused("files", {"new": "empty", "path": path or "../x"}, 400)
        assert outside.read_text() == FIVE


def test_a_file_that_cannot_be_read_is_told_with_its_issues(studio):
    for content, status, told in [
        (b"\xff\xfe\x00", 422, "format"),
        (b"", 422, "is empty"),
        (b"nodes: [", 422, "bad.yaml:2"),
        (b"workflow: x\nnodes: {1: {typ: start}}\n", 422, "typ"),
        (b"[" * 100_000, 422, ""),
        (b"a: &a [*a]\nnodes: *a\n", 422, ""),
        (b"operators: 7\n", 422, "operators"),
    ]:
        (studio.folder / "bad.yaml").write_bytes(content)
        answer = studio.refused("open", {"path": "bad.yaml"}, status)
        assert told in json.dumps(answer)
        assert answer["issues"]


def test_a_missing_file_is_told(studio):
    assert "no such file" in studio.refused("open", {"path": "fife.yaml"}, 400)["error"]


def test_a_graph_with_forty_issues_opens_and_can_be_mended(studio):
    nodes = "\n".join(f"  {number}: {{type: llm, after: {number - 1}}}" for number in range(2, 42))
    (studio.folder / "many.yaml").write_text(f"workflow: many\nnodes:\n  1: {{type: start, variables: []}}\n{nodes}\n")
    document = studio.open("many.yaml")
    missing = [each for each in document["issues"] if each["code"] == "missing-param"]
    assert len(missing) == 80
    assert {(each["node"], each["field"]) for each in missing} >= {("2", "system"), ("41", "user")}
    told = studio.refused("run", {"path": "many.yaml"}, 422)
    assert len(told["issues"]) == len(document["issues"])
    document = studio.apply(document, {"op": "set", "node": "2", "path": "system", "value": "Be brief."})
    assert len([each for each in document["issues"] if each["code"] == "missing-param"]) == 79


def test_a_node_of_an_unknown_type_is_shown_and_can_be_removed(studio):
    text = FIVE + "  6: {type: teleporter, after: 1, speed: 9}\n"
    (studio.folder / "odd.yaml").write_text(text)
    document = studio.open("odd.yaml")
    [issue] = [each for each in document["issues"] if each["node"] == "6"]
    assert (issue["code"], document["nodes"][5]["title"], document["nodes"][5]["params"]) == (
        "unknown-type", "Teleporter", {"speed": 9},
    )  # fmt: skip
    assert studio.apply(document, {"op": "remove_node", "node": "6"})["issues"] == []


def test_operations_that_make_no_sense_change_nothing(studio):
    version = studio.open()["version"]
    for operations, status, told in [
        ([{"op": "connect", "source": "1", "target": "9"}], 422, "there is no node '9'"),
        ([{"op": "teleport"}], 422, "'teleport' is not an operation"),
        ([{"op": "add_node", "id": "6", "type": "lmm"}], 422, "did you mean 'llm'?"),
        ([{"op": "set", "node": "3", "path": "tmplate", "value": 1}], 422, "did you mean 'template'?"),
        ([{"op": "remove_node", "node": "4"}, {"op": "remove_node", "node": "4"}], 422, "operation 2 (remove_node)"),
        ([], 400, "there is no operation"),
        ("connect 1 2", 422, "must be an object"),
        (None, 422, "must be an object"),
        ([[[[]]]], 422, "must be an object"),
    ]:
        answer = studio.refused("apply", {"path": "five.yaml", "version": version, "operations": operations}, status)
        assert told in json.dumps(answer)
        assert (studio.folder / "five.yaml").read_text() == FIVE
        assert studio.open()["version"] == version


def test_requests_that_make_no_sense_are_told_why(studio):
    for path, said, told in [
        ("open", {}, "path: expected a text, got nothing"),
        ("open", {"path": 7}, "path: expected a text, got 7"),
        ("apply", {"path": "five.yaml", "operations": []}, "version: expected a whole number, got nothing"),
        ("goto", {"path": "five.yaml", "version": 1, "step": 99}, "there is no step 99; there are 1"),
        ("goto", {"path": "five.yaml", "version": 1, "step": True}, "step: expected a whole number, got True"),
        ("compare", {"path": "five.yaml", "from": 1, "to": -4}, "there is no step -4; there are 1"),
        ("candidates", {"path": "five.yaml", "node": "33"}, "there is no node '33' (did you mean '3'?)"),
        ("connectable", {"path": "five.yaml", "source": "x"}, "there is no node 'x'"),
        ("files", {"new": "file"}, "new: 'file' is not one of empty, experts, example, import"),
        ("files", {"new": "empty", "path": "five.yaml/x.yaml"}, "five.yaml/x.yaml: cannot be written: "),
        ("files", {"new": "example", "name": "greting"}, "there is no example 'greting' (did you mean 'greeting'?)"),
        ("files", {"new": "import", "name": "x.yaml", "base64": "!!"}, "x.yaml: the content is not base64: "),
        ("run", {"path": "five.yaml", "inputs": {"topik": "x"}}, "there is no input 'topik' (did you mean 'topic'?)"),
        ("run", {"path": "five.yaml", "inputs": []}, "inputs: expected an object, got []"),
        ("run", {"path": "five.yaml", "only": "33"}, "there is no node '33' (did you mean '3'?)"),
        (
            "run",
            {"path": "five.yaml", "from": "3"},
            "2, 4: without a value; pin one, or run the whole workflow once",
        ),
        ("chat", {"path": "five.yaml", "version": 1, "text": " "}, "describe the workflow, or the change"),
    ]:
        assert studio.refused(path, said, 400)["error"].startswith(told)


def test_missing_inputs_are_named(studio):
    assert "topic" in studio.refused("run", {"path": "five.yaml", "inputs": {}}, 400)["error"]


def test_a_body_that_is_no_object_is_refused(studio):
    for body in [b"[]", b"7", b"{", b"\xff", b'{"a": NaN}', b"[" * 100_000]:
        answer = studio._http.post(f"{studio.url}data/open", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 400


def test_oversized_bodies_are_refused(studio):
    answer = studio.post("data/apply", {"path": "five.yaml", "version": 1, "operations": ["x" * 9 * 2**20]})
    assert refusal(answer) == (413, "that is more than 8 MiB")
    large = {"new": "import", "name": "x.yaml", "base64": "A" * 23 * 2**20}
    assert studio.refused("files", large, 400)["error"] == "x.yaml: is larger than 16 MiB"


def test_runs_that_there_are_not_are_told(studio):
    for path in ("data/runs/none/changes", "runs/none/", "runs/none/data/picture"):
        assert refusal(studio.get(path))[0] == 404
    assert refusal(studio.post("data/runs/none/answer", {"interrupt_id": "x", "value": 1}))[0] == 404


def test_a_hostile_label_stays_text(studio):
    evil = "</script><img src=x onerror=alert(1)>{{#1.topic#}}"
    document = studio.apply(studio.open(), {"op": "add_node", "id": "6", "type": "llm", "params": {"user": evil}})
    [summary] = [each["summary"] for each in document["nodes"] if each["id"] == "6"]
    assert summary == "</script><img src=x onerror=alert(1)>topic · Start"
    answer = studio.post("data/open", {"path": "five.yaml"})
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_files_of_a_run_are_served_without_scripts(serve, tmp_path):
    studio = serve()
    (studio.folder / "pass.yaml").write_text(
        "workflow: pass\nnodes:\n  1: {type: start, variables: [[page, file], [picture, file]]}\n"
        '  2: {type: end, after: 1, outputs: [[page, [page, "1"]], [picture, [picture, "1"]]]}\n'
    )
    inputs = {
        "page": studio.upload("../x.html", b"<script>alert(1)</script>"),
        "picture": studio.upload("x.png", b"\x89PNG"),
    }
    _, last = studio.run("pass.yaml", inputs=inputs)
    page, picture = (last["result"][name]["file"] for name in ("page", "picture"))
    assert (page["name"], page["size"], picture["type"]) == ("x.html", 25, "image/png")
    answer = studio.get(page["url"])
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment")
    answer = studio.get(picture["url"])
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["content-security-policy"] == "default-src 'none'; style-src 'unsafe-inline'; sandbox"
    assert studio.get(page["url"][:-1] + "99").status_code == 404


def test_what_a_text_holds_as_base64_is_served_as_the_type_of_its_content(serve):
    studio = serve()
    (studio.folder / "pass.yaml").write_text(
        "workflow: pass\nnodes:\n  1: {type: start, variables: [[text, string]]}\n"
        '  2: {type: end, after: 1, outputs: [[text, [text, "1"]]]}\n'
    )
    picture, page = (
        base64.b64encode(each * 20).decode() for each in (b"\x89PNG\r\n\x1a\n", b"<script>alert(1)</script>")
    )

    def shown(text):
        return studio.run("pass.yaml", inputs={"text": text})[1]["result"]["text"]

    for text in (f"data:text/html;base64,{picture}", picture, f"\n{picture}\n"):
        found = shown(text)["file"]
        assert (found["name"], found["type"], found["size"]) == ("image.png", "image/png", 160)
        answer = studio.get(found["url"])
        assert (answer.headers["content-type"], len(answer.content)) == ("image/png", 160)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"].endswith("sandbox")
    html = f"data:image/png;base64,{page}"
    assert shown(html) == html
    assert re.fullmatch(r"See !\[\]\(data/runs/[\w-]+/files/0\)\.", shown(f"See ![](data:image/png;base64,{picture})."))


def test_only_a_folder_is_a_folder(tmp_path):
    with pytest.raises(Exception, match="is not a folder"):
        Folder(tmp_path / "none")
