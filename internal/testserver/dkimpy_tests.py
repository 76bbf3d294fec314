"""Runs dkimpy's own tests and writes what they verify: {"data": folder, "verified": [...], "canonical": [...]}.

A verification is {"test", "arc", "message", "records", "says"}: the message in base64, the records that were found, and what
dkimpy says of each DKIM signature from the top ("pass" or "fail"), or of the ARC chain. A canonical form is {"of", "in",
"want"}: the name of the test's class, and its input and output in base64. The script fails when a test fails: so what dkimpy
says is what its tests expect. Verifications of TLS reports are left out."""
import base64
import json
import os
import sys
import unittest

import dkim
import dkim.tests
from dkim.tests import test_arc, test_canonicalization, test_dkim, test_dkim_ed25519, test_dkim_rsavariants, test_dkim_tlsrpt

verified, canonical, test_now = [], [], ""


def b64(octets):
    return base64.b64encode(octets).decode("ascii")


def keep_message(signer, message):
    signer.raw = message
    set_message(signer, message)


def verify_chain(arc, dnsfunc=None):
    records = {}
    said = chain_verify(arc, dnsfunc=noting(dnsfunc, records))
    note(arc, records, [(said[0] or b"fail").decode("ascii")])
    return said


def verify_signature(signer, idx=0, dnsfunc=None):
    records = {}
    says = [one(signer, i, noting(dnsfunc, records)) for i in range(signatures(signer))]
    if not signer.tlsrpt:
        note(signer, records, says)
    return signature_verify(signer, idx, dnsfunc)


def one(signer, i, dnsfunc):
    """What dkimpy says of a signature of the message of a signer."""
    try:
        again = dkim.DKIM(signer.raw, minkey=signer.minkey, tlsrpt=signer.tlsrpt)
        return "pass" if signature_verify(again, i, dnsfunc) else "fail"
    except dkim.DKIMException:
        return "fail"


def signatures(signer):
    return sum(1 for name, _ in signer.headers if name.lower() == b"dkim-signature")


def noting(dnsfunc, records):
    """A dnsfunc that notes the records it finds. Tests fail when they are asked for a name that they do not know."""
    def txt(name, timeout=5):
        try:
            text = dnsfunc(name, timeout=timeout)
        except AssertionError:
            text = None
        if text:
            records[name.decode("ascii").rstrip(".")] = text if isinstance(text, str) else text.decode("ascii")
        return text

    return txt


def note(signer, records, says):
    arc = isinstance(signer, dkim.ARC)
    verified.append({"test": test_now, "arc": arc, "message": b64(signer.raw), "records": records, "says": says})


def canonical_form(test, want, given):
    canonical.append({"of": type(test).__name__, "in": b64(joined(given)), "want": b64(joined(want))})
    check_form(test, want, given)


def joined(form):
    return form if isinstance(form, bytes) else b"".join(name + b":" + value for name, value in form)


class Result(unittest.TestResult):
    def startTest(self, test):
        global test_now
        test_now = f"{type(test).__module__.removeprefix('dkim.tests.')}.{test.id().rpartition('.')[2]}"
        super().startTest(test)


set_message, dkim.DomainSigner.set_message = dkim.DomainSigner.set_message, keep_message
chain_verify, dkim.ARC.verify = dkim.ARC.verify, verify_chain
signature_verify, dkim.DKIM.verify = dkim.DKIM.verify, verify_signature
forms = test_canonicalization.BaseCanonicalizationTest
check_form, forms.assertCanonicalForm = forms.assertCanonicalForm, canonical_form

result = Result()
for module in (test_arc, test_canonicalization, test_dkim, test_dkim_ed25519, test_dkim_rsavariants, test_dkim_tlsrpt):
    module.test_suite().run(result)
for test, why in result.errors + result.failures:
    sys.exit(f"dkimpy's own test {test.id()} fails: {why}")
data = os.path.join(os.path.dirname(dkim.tests.__file__), "data")
json.dump({"data": data, "verified": verified, "canonical": canonical}, sys.stdout)
