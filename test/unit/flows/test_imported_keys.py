"""Keys that are written in files of other platforms reach no file of another platform."""

import json

import pytest
from amounts import sample

from operad.flows.formats.table import FORMATS
from operad.flows.secrets import file_secrets

KEY = "Zq81xK-77vbN2"


def flow(kind, **inputs):
    ids = {each: f"{each}_0" for each in ("startAgentflow", kind)}
    inputs = {kind: inputs, "startAgentflow": inputs if kind == "startAgentflow" else {"startInputType": "chatInput"}}
    nodes = [{"id": i, "data": {"id": i, "name": k, "label": k, "inputs": inputs[k]}} for k, i in ids.items()]
    edges = [{"source": "startAgentflow_0", "target": f"{kind}_0"}] if len(nodes) > 1 else []
    return {"nodes": nodes, "edges": edges}


def http(**inputs):
    return flow("httpAgentflow", **{"method": "POST", "url": "https://shop.example/", **inputs})


def pair(name, value):
    return [{"key": name, "value": value}]


FLOWISE = {
    "webhook": flow("startAgentflow", startInputType="webhookTrigger", webhookSecret=KEY),
    "callback": flow("startAgentflow", startInputType="webhookTrigger", callbackSecret=KEY),
    "state": flow("startAgentflow", startInputType="chatInput", startState=pair("apiKey", KEY)),
    "authorization": http(headers=pair("Authorization", f"Bearer {KEY}")),
    "header": http(headers=pair("X-Api-Key", KEY)),
    "bearer": http(headers=pair("X-Forward", f"Bearer {KEY}")),
    "login": http(url=f"https://shop:{KEY}@shop.example/"),
    "query": http(queryParams=pair("access_token", KEY)),
    "body": http(bodyType="json", body=json.dumps({"apiKey": KEY})),
    "tool": flow("toolAgentflow", toolAgentflowSelectedTool="t", toolAgentflowSelectedToolConfig={"apiKey": KEY}),
    "argument": flow("toolAgentflow", toolInputArgs=[{"inputArgName": "apiKey", "inputArgValue": KEY}]),
    "model": flow("llmAgentflow", llmModel="chatOpenAI", llmModelConfig={"modelName": "m", "openAIApiKey": KEY}),
    "prompt": flow("llmAgentflow", llmMessages=[{"role": "user", "content": f"Authorization: Bearer {KEY}"}]),
    "code": flow("customFunctionAgentflow", customFunctionJavascriptFunction=f"const apiKey = '{KEY}';\nreturn 1;"),
    "unknown": flow("newAgentflow", apiKey=KEY),
}


def canvas(**inputs):
    start = {"outputs": [{"type": "string", "name": "q"}], "nodeMeta": {"title": "Start"}}
    request = {
        "apiInfo": {"method": "GET", "url": "https://shop.example/"},
        "auth": {"authOpen": False},
        "headers": [],
        "params": [],
        "body": {"bodyType": "EMPTY"},
        "setting": {"timeout": 120, "retryTimes": 3},
        **inputs,
    }
    datas = [("1", start), ("45", {"inputs": request, "outputs": [{"type": "string", "name": "body"}]})]
    nodes = [
        {"id": id_, "type": kind, "data": data, "meta": {"position": {"x": 0, "y": 0}}, "edges": []}
        for id_, (kind, data) in zip(("100001", "3"), datas, strict=True)
    ]
    return {"nodes": nodes, "edges": [{"sourceNodeID": "100001", "targetNodeID": "3"}]}


def literal(name, value):
    return [{"name": name, "input": {"type": "string", "value": {"type": "literal", "content": value}}}]


BEARER = {"authOpen": True, "authType": "BEARER_AUTH", "authData": {"bearerTokenData": literal("token", KEY)}}
CANVASES = {
    "bearer": canvas(auth=BEARER),
    "header": canvas(headers=literal("X-Api-Key", KEY)),
    "query": canvas(apiInfo={"method": "GET", "url": f"https://shop.example/?api_key={KEY}"}),
    "unread": canvas(auth=BEARER, apiInfo={"method": "GET", "url": f"https://shop:{KEY}@shop.example/"}),
}
PROMPTS = {
    "field": {"3": {"class_type": "AskModel", "inputs": {"api_key": KEY}}},
    "address": {"3": {"class_type": "AskModel", "inputs": {"url": f"https://shop:{KEY}@shop.example/"}}},
    "text": {"3": {"class_type": "AskModel", "inputs": {"headers": f"Authorization: Bearer {KEY}"}}},
}
FILES = [
    *(pytest.param("flowise", file, id=f"flowise-{name}") for name, file in FLOWISE.items()),
    *(pytest.param("coze-canvas", file, id=f"coze-{name}") for name, file in CANVASES.items()),
    *(pytest.param("comfyui-api", file, id=f"comfyui-{name}") for name, file in PROMPTS.items()),
]


@pytest.mark.parametrize(("name", "file"), sample(FILES, 3))
def test_a_key_is_in_no_file_of_another_platform_and_stays_in_its_own(name, file):
    graph = FORMATS[name].load(json.dumps(file))
    others = [each for each in FORMATS.values() if not each.name.startswith(name.partition("-")[0])]
    for other in others:
        assert KEY.encode() not in other.dump(graph), other.name
        assert KEY.encode() not in other.dump_keeping_text(graph), other.name
    notes = [issue for issue in FORMATS["operad"].losses(graph) if issue.code == "note" and "key" in issue.message]
    assert notes
    assert json.loads(FORMATS[name].dump(graph)) == file


@pytest.mark.parametrize("kind", ["authorization", "header", "bearer", "login", "query", "body"])
def test_a_request_of_a_flow_names_its_key_when_it_runs(kind):
    graph = FORMATS["flowise"].load(json.dumps(FLOWISE[kind]))
    assert KEY not in str([node.params for node in graph.nodes])
    assert KEY in str(file_secrets(graph))


@pytest.mark.parametrize(("kind", "lossy"), [("header", False), ("prompt", True), ("code", True), ("argument", True)])
def test_a_key_that_only_a_request_would_send_is_a_difference_elsewhere(kind, lossy):
    graph = FORMATS["flowise"].load(json.dumps(FLOWISE[kind]))
    losses = [each for each in FORMATS["operad"].losses(graph) if each.code == "loss" and "secret." in str(each)]
    assert bool(losses) == lossy
