"""FastAPI with a login: users chat with a workflow, and another user approves what its tool does.

OPENAI_API_KEY=… uvicorn fastapi_login:app --app-dir test/example

Sign in as ada at http://localhost:8000/login, and ask for a refund at /ai/. Sign in as bob in another browser, and
allow it on the run's page, below /ai/view/. The process may be restarted in between: the run is in the database.
"""

import hmac
import os
from urllib.parse import parse_qsl

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from operad import Operator, Workflow, tool
from operad.server import asgi

USERS = {"ada": "lovelace", "bob": "builder"}  # your own users, login and sessions go here
KEY = os.environ.get("SESSION_KEY", "change me").encode()


@tool(approve=True)
def refund(order: str) -> str:
    """Refund an order."""
    return f"{order} is refunded"


def session_of(user: str) -> str:
    return f"{user}:{hmac.new(KEY, user.encode(), 'sha256').hexdigest()}"


def signed_in(request: Request) -> str:
    session = request.cookies.get("session", "")
    user = session.partition(":")[0]
    if user not in USERS or not hmac.compare_digest(session.encode(), session_of(user).encode()):
        raise HTTPException(303, headers={"Location": "/login"})
    return user


flow = Workflow(Operator("Do what the customer asks for, with the tools.", tools=[refund], id="clerk"), name="shop")
served = asgi(flow, auth=signed_in, db="sqlite:///shop.db")
app = FastAPI(lifespan=served.lifespan)
app.mount("/ai", served)


@app.get("/login")
async def show_login() -> HTMLResponse:
    return HTMLResponse('<form method="post"><input name="user"><input name="password" type="password"><button>Sign in')


@app.post("/login")
async def log_in(request: Request) -> RedirectResponse:
    fields = {"user": "", "password": "", **dict(parse_qsl((await request.body()).decode()))}
    if not hmac.compare_digest(USERS.get(fields["user"], "\0").encode(), fields["password"].encode()):
        raise HTTPException(401, "unknown user or password")
    reply = RedirectResponse("/ai/", 303)
    reply.set_cookie("session", session_of(fields["user"]), httponly=True, samesite="lax")
    return reply
