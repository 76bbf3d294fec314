"""Verifies and seals ARC chains with dkimpy. Reads {"records": {name: text}, "key": PEM, "at": seconds,
"messages": [base64]}.

Without a key it writes for each message {"cv", "reason", "seal"}: the state of the chain ("ended" when the newest seal
says fail), why, and whether the newest set is valid on its own. With a key it writes each message, in base64, with one set
more, of sealer.example, whose cv is what it has verified."""
import base64
import json
import sys

import dkim


def txt_of(records):
    def txt(name, timeout=5):
        text = records.get(name.decode("ascii").rstrip("."))
        return None if text is None else text.encode("ascii")

    return txt


def alone(raw, newest):
    """The message with no set but the newest."""
    headers, body = dkim.rfc822_parse(raw)
    keep = []
    for name, value in headers:
        found = dkim.ARC.INSTANCE_RE.search(value)
        if name.lower() in dkim.ARC.ARC_HEADERS and (found is None or int(found.group(1)) != newest):
            continue
        keep.append(name + b":" + value)
    return b"".join(keep) + b"\r\n" + body


def verify(raw, txt):
    cv, _, reason = dkim.ARC(raw).verify(dnsfunc=txt)
    newest, _ = dkim.ARC(raw).sorted_arc_headers()
    seal = False
    if newest:
        arc = dkim.ARC(alone(raw, newest))
        try:
            result = arc.verify_instance(arc.sorted_arc_headers()[1], newest, dnsfunc=txt)
            seal = bool(result["as-valid"] and result["ams-valid"])
        except dkim.DKIMException:
            pass
    return {"cv": "ended" if cv is None else cv.decode("ascii"), "reason": reason, "seal": seal}


def seal(raw, txt, key, at):
    cv, _, _ = dkim.ARC(raw).verify(dnsfunc=txt)
    found = b"spf=pass smtp.mailfrom=alice@client.example" + (b"" if cv == b"none" else b"; arc=" + cv)
    raw = b"Authentication-Results: mx.sealer.example; " + found + b"\r\n" + raw
    added = dkim.ARC(raw).sign(b"s1", b"sealer.example", key, b"mx.sealer.example", timestamp=at)
    return base64.b64encode(b"".join(added) + raw).decode("ascii")


job = json.load(sys.stdin)
txt = txt_of(job["records"])
messages = [base64.b64decode(m) for m in job["messages"]]
if job["key"]:
    json.dump([seal(m, txt, job["key"].encode("ascii"), job["at"]) for m in messages], sys.stdout)
else:
    json.dump([verify(m, txt) for m in messages], sys.stdout)
