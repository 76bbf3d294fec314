"""Reads messages with Python's email package. Takes their paths, one a line, and writes for each a list of the mailboxes of To."""
import email
import email.policy
import json
import sys

out = []
for path in sys.stdin:
    with open(path.rstrip("\n"), "rb") as f:
        to = email.message_from_binary_file(f, policy=email.policy.default)["To"]
    out.append({
        "to": [{"name": a.display_name or "", "addr": a.addr_spec} for a in to.addresses],
        "defects": [repr(d) for d in to.defects],
    })
json.dump(out, sys.stdout)
