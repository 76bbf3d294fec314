"""Verifies DKIM signatures with dkimpy. Reads {"records": {name: text}, "messages": [base64]}, and writes for each
message a list with one item for each of its signatures: "" when it verifies, else why not."""
import base64
import json
import sys

import dkim


def verify(raw, records):
    def txt(name, timeout=5):
        text = records.get(name.decode("ascii").rstrip("."))
        return None if text is None else text.encode("ascii")

    signatures = sum(1 for name, _ in dkim.rfc822_parse(raw)[0] if name.lower() == b"dkim-signature")
    out = []
    for i in range(signatures):
        try:
            out.append("" if dkim.DKIM(raw).verify(idx=i, dnsfunc=txt) else "it does not verify")
        except dkim.DKIMException as e:
            out.append(str(e) or type(e).__name__)
    return out


job = json.load(sys.stdin)
json.dump([verify(base64.b64decode(m), job["records"]) for m in job["messages"]], sys.stdout)
