"""Coze: its workflow archives, and the canvas of Coze Studio.

The prefix ``coze-`` marks a node type that Operad has, too, but whose parameters it cannot read.
"""

from operad.operators.integration import Integration

_ASK = "ask by a human-input node"
_CALL = "add a sub-workflow node, and name the other workflow by `workflows` of the services"
_SEARCH = "add a knowledge-retrieval node, and name the folder of the documents by `knowledge` of the services"
_INDEX = "index the documents beside the workflow: `knowledge` of the services names their folder"
_STORE = "add a tool node, and give the function that asks the database by `tools` of the services"
_CONVERSATION = "give the llm node a memory; conversations and messages of Coze's server are not reached"
_ASSIGN = "add an assigner node after a conversation node that declares the variable"
_BREAK = "end the loop by its `break_conditions`"
_HTTP = "add a request node with the method, headers, body and authorization; a template and a key that stands in the file are not read: make the key an input"

INTEGRATION = Integration(
    name="coze",
    formats={
        "coze": "operad.integrations.coze.format:COZE",
        "coze-canvas": "operad.integrations.coze.format:COZE_CANVAS",
    },
    advice={
        "batch": "add an iteration node; only a batch over one list with one output is read",
        "break": "a break without a loop around it that is read does not run; " + _BREAK,
        "comment": "move the comment out of the loop or batch that it stands in, or remove it",
        "condition": "add an if-else node; the form of a comparison is not read",
        "coze-code": "make its inputs variables with names of Python, and its language Python or JavaScript",
        "coze-end": "make its node_inputs variables or literals, of which each is an output",
        "coze-llm": "give it a systemPrompt and a prompt as texts in llmParam",
        "coze-loop": "add an iteration node for a list, or a loop node with a count",
        "coze-start": "give its inputs types of the list in docs/nodes.md",
        "clear_conversation_history": _CONVERSATION,
        "conversation_history": _CONVERSATION,
        "conversation_list": _CONVERSATION,
        "create_conversation": _CONVERSATION,
        "create_message": _CONVERSATION,
        "database": _STORE,
        "database_delete": _STORE,
        "database_insert": _STORE,
        "database_select": _STORE,
        "database_update": _STORE,
        "dataset": _SEARCH,
        "dataset_write": _INDEX,
        "delete_conversation": _CONVERSATION,
        "delete_message": _CONVERSATION,
        "edit_conversation": _CONVERSATION,
        "edit_message": _CONVERSATION,
        "http": _HTTP,
        "http_requester": _HTTP,
        "knowledge": _SEARCH,
        "image_generate": "add a text2image node with a prompt",
        "input": f"{_ASK}; only texts are asked for",
        "intent": "add a question-classifier node; only intents by name with one query are read",
        "json_parse": "read the text by a code node: json.loads; only one input is read",
        "json_stringify": "write the text by a code node: json.dumps",
        "knowledge_delete": _INDEX,
        "knowledge_write": _INDEX,
        "loop_set_variable": _ASSIGN,
        "message_list": _CONVERSATION,
        "output": "add an answer node with its text",
        "plugin": "add a tool node, and give the function by `tools` of the services",
        "question": f"{_ASK}, with the options as its actions; fields that are extracted from the answer, and options with variables, are not read",
        "subflow": _CALL,
        "text": "split or join the text by a code node",
        "variable": _ASSIGN,
        "variable_merge": "add a variable-aggregator node",
        "workflow": _CALL,
    },
)
