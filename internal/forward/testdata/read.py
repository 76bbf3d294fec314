"""Reads messages as JSON, one a line, with Python's email package, and says which it does not read as it should."""
import base64
import email
import email.policy
import json
import sys


failed = 0
for line in sys.stdin:
    one = json.loads(line)
    data, original = base64.b64decode(one["Data"]), base64.b64decode(one["Original"] or "")
    msg = email.message_from_bytes(data, policy=email.policy.default)
    faults = []
    if one["Mode"] != "redirect":
        if [a.addr_spec for a in msg["From"].addresses] != ["forwarder@example.com"]:
            faults.append("From is %r" % str(msg["From"]))
        if msg["From"].defects:
            faults.append("From: %r" % (msg["From"].defects,))
    if one["Mode"] == "attach":
        if msg.defects:
            faults.append("%r" % (msg.defects,))
        parts = msg.get_payload()
        if len(parts) != 2 or not parts[1].get_filename().endswith(".eml"):
            faults.append("%d parts, %r" % (len(parts), [p.get_filename() for p in parts]))
        elif parts[1].get_content_type() == "message/rfc822":
            inner = parts[1].get_payload(0).as_bytes(policy=email.policy.SMTP)
            if parts[1].get_payload(0).keys() != email.message_from_bytes(original).keys():
                faults.append("the original has other fields: %r" % inner[:200])
        elif parts[1].get_payload(decode=True) != original:
            faults.append("the attachment is not the original")
    if faults:
        failed += 1
        print(one["Name"], one["Mode"], "; ".join(faults))
sys.exit(1 if failed else 0)
