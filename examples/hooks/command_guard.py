#!/usr/bin/env python3
"""A hook as a program: a call as JSON on stdin, what is to become of it as JSON on stdout.

In the place of the patterns a model could be asked; the daemon waits for `call_s` of the hook, and refuses then.
"""

import json
import re
import sys

DANGEROUS = {
    r"\brm\s+-\w*r\w*f|\brm\s+-\w*f\w*r": "deleting whole trees is not for agents",
    r"\bgit\s+push\b.*--force": "a forced push is for people",
    r"\bcurl\b.*\|\s*(ba)?sh\b": "what was fetched is read before it is run",
}

call = json.load(sys.stdin)
reason = next((why for pattern, why in DANGEROUS.items() if re.search(pattern, call["input"])), None)
json.dump(None if reason is None else {"refuse": reason}, sys.stdout)
