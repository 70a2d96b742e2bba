"""The server application `app`, which `streamlit run` serves: Streamlit's pages and the route of one-time links, behind
the checks of `dashboard.login`."""

import os
from pathlib import Path

from starlette.middleware import Middleware
from starlette.routing import Route
from streamlit import config
from streamlit.starlette import App

from dashboard.login import ENTER, GATE, OwnPagesOnly, enter
from dashboard.web_server import SAYS_VARIABLE, TOKEN_VARIABLE, say_when_it_answers

# The token is removed from the environment, because sweeps that are started from this server inherit it.
if first := os.environ.pop(TOKEN_VARIABLE, ""):
    GATE.add_link(first)

if says := os.environ.pop(SAYS_VARIABLE, ""):
    say_when_it_answers(says, config.get_option("server.address"), int(config.get_option("server.port")))

app = App(
    Path(__file__).with_name("app.py"),
    routes=[Route(ENTER, enter(int(config.get_option("server.port"))), methods=["GET"])],
    middleware=[Middleware(OwnPagesOnly, hosts=config.get_option("server.allowedHosts"))],
)
