"""Advice about a server or an API that cannot be used, by the words in which the daemon says why. Pure."""

from typing import Final

_NAMES: Final = "correct the host of its URL, or the name server of this machine (/etc/resolv.conf)"
# The first that fits.
_ADVICE: Final = (
    ("No module named", "install the package that has this module for the interpreter that command names"),
    ("Cannot find module", "install its package (npm ci) where it is started, or correct args and cwd"),
    ("does not offer", "correct the names in tools of its table, or update the server"),
    ("No such file or directory", "install the program, or correct command (and cwd); PATH is that of this command"),
    ("Permission denied", "the user of the daemon may not execute it: chmod +x, or correct its owner"),
    ("Exec format error", "it is no program for this machine, or a script without a first line #!"),
    ("tooldispatchd login", "a person has to log in once, as it says"),
    ("HTTP 401", "correct its token, token_env, token_file or headers; is it another environment's?"),
    ("HTTP 403", "correct its token, or ask for what that may do there"),
    ("HTTP 404", "correct the path of its URL"),
    ("HTTP 405", 'correct the path of its URL; an older server wants transport = "sse"'),
    ("not known", _NAMES),
    ("No address associated", _NAMES),
    ("Temporary failure in name", "no name server answers: look at the network and /etc/resolv.conf"),
    ("Connection refused", "nobody listens there: start what should, or correct the port"),
    ("client certificate", "its table has cert and key for one"),
    ("certificate", "the authority that signed its certificate goes into ca"),
    ("is it http", "correct the scheme of its URL"),
    ("does not speak TLS", "correct the scheme of its URL"),
    ("did not answer", "a slow start has handshake_s; does it speak MCP, and does it wait for something on its stdin?"),
    ("exited with code", "run its command by hand: what is missing is an argument, or a variable of env"),
    ("signal", "run its command by hand; with bounds of memory or cpu_s in its table, raise them"),
)


def advice_for(said: str) -> str | None:
    """The advice where the daemon says this; None where only its own words help."""
    return next((advice for words, advice in _ADVICE if words in said), None)
